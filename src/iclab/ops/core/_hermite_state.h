/* The state of the one-layer model by Hermite degree: sums of c, c x and c (x x' - I)/sqrt 2 over a prompt's examples.
 * Of the symmetric last one only the tiles that meet the upper half are computed. Included like _lanes.h.
 *
 * A block of examples and its weighted copy stay in the first cache; a tile of sums stays in registers over the block. */

#define ROWS 8 /* rows of a tile one vector wide; half as many for wider ones, so that all sums are in registers */

struct NAME(block) { /* of a prompt: `count` examples, `x` and its weighted copy, whose rows are padded with zeros */
    const REAL *x, *weighted;
    int64_t count, stride, width, dim;
};

/* Add to `rows` rows and `vectors` vectors of columns of `second`, from (row, column) on; to `first` if asked. */
INLINE void NAME(state_tile)(struct NAME(block) block, int64_t row, int64_t column, REAL *second, REAL *first,
                             const int with_first, const int rows, const int vectors)
{
    VEC sums[ROWS / 2 * 3], totals[3], columns[3];
    UNROLL
    for (int k = 0; k < rows * vectors; k++)
        sums[k] = NAME(all)(K(0));
    UNROLL
    for (int v = 0; v < vectors; v++)
        totals[v] = NAME(all)(K(0));
    for (int64_t j = 0; j < block.count; j++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            columns[v] = NAME(load)(block.weighted + j * block.width + column + v * LANES, LANES);
            if (with_first)
                totals[v] += columns[v];
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const VEC value = NAME(all)(block.x[j * block.stride + row + r]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                sums[r * vectors + v] += value * columns[v];
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const int64_t place = column + v * LANES, count = block.dim - place;
        if (with_first)
            NAME(store)(first + place, NAME(load)(first + place, count) + totals[v], count);
        UNROLL
        for (int r = 0; r < rows; r++) {
            if (row + r >= block.dim)
                continue;
            REAL *sum = second + (row + r) * block.dim + place;
            NAME(store)(sum, NAME(load)(sum, count) + sums[r * vectors + v], count);
        }
    }
}

/* One function a shape: inlined into one, their sums would compete for registers. */
#define TILE(name, with_first, rows, vectors)                                                                      \
    TARGET APART static void NAME(name)(const struct NAME(block) *block, int64_t row, int64_t column, REAL *second, \
                                        REAL *first)                                                               \
    {                                                                                                              \
        NAME(state_tile)(*block, row, column, second, first, with_first, rows, vectors);                           \
    }
TILE(tile_1, 0, ROWS, 1)
TILE(tile_2, 0, ROWS / 2, 2)
TILE(tile_3, 0, ROWS / 2, 3)
TILE(tile_1_first, 1, ROWS, 1)
TILE(tile_2_first, 1, ROWS / 2, 2)
#undef TILE

/* Rows `row` to `row + ROWS - 1` from the diagonal on; the first rows take `first` along. */
TARGET static void NAME(state_rows)(const struct NAME(block) *block, int64_t row, REAL *second, REAL *first)
{
    int64_t left = (block->dim + LANES - 1) / LANES - row / LANES; /* vectors of columns from the diagonal on */
    for (int64_t column = row / LANES * LANES; left > 0;) {
        const int64_t vectors = left == 3 && row > 0 ? 3 : left > 1 ? 2 : 1;
        if (vectors == 1) {
            (row ? NAME(tile_1) : NAME(tile_1_first))(block, row, column, second, first);
        } else {
            (vectors == 3 ? NAME(tile_3) : row ? NAME(tile_2) : NAME(tile_2_first))(block, row, column, second, first);
            if (row + ROWS / 2 < block->dim)
                (vectors == 3 ? NAME(tile_3) : NAME(tile_2))(block, row + ROWS / 2, column, second, first);
        }
        column += vectors * LANES, left -= vectors;
    }
}

/* The next `count` examples of a prompt: padded where their rows do not fill tiles, and weighted. */
INLINE void NAME(state_block)(struct NAME(block) *block, const REAL *weights, REAL *padded, REAL *weighted)
{
    const int64_t dim = block->dim, width = block->width;
    if (dim != width) {
        for (int64_t j = 0; j < block->count; j++)
            for (int64_t i = 0; i < dim; i++)
                padded[j * width + i] = block->x[j * block->stride + i];
        block->x = padded, block->stride = width;
    }
    for (int64_t j = 0; j < block->count; j++)
        for (int64_t i = 0; i < width; i += LANES)
            NAME(store)(weighted + j * width + i, NAME(load)(block->x + j * block->stride + i, LANES) * weights[j], LANES);
    block->weighted = weighted;
}

TARGET static void NAME(state_tasks)(int64_t begin, int64_t end, struct state_job *job)
{
    const int64_t dim = job->dim, width = (dim + PANEL - 1) / PANEL * PANEL;
    const int64_t most = 4096 / width > 64 ? 64 : 4096 / width < 16 ? 16 : 4096 / width; /* examples in a block */
    void *memory;
    REAL *padded = aligned_memory(&memory, 2 * most * width * sizeof(REAL));
    if (!padded) {
        job->failed = 1;
        return;
    }
    memset(padded, 0, 2 * most * width * sizeof(REAL));
    for (int64_t prompt = begin; prompt < end; prompt++) {
        const REAL *weights = (const REAL *)job->weights + prompt * job->examples;
        REAL *zeroth = (REAL *)job->zeroth + prompt, *first = (REAL *)job->first + prompt * dim;
        REAL *second = (REAL *)job->second + prompt * dim * dim;
        memset(first, 0, dim * sizeof(REAL));
        memset(second, 0, dim * dim * sizeof(REAL));
        VEC sum = NAME(all)(K(0));
        for (int64_t j = 0; j < job->examples; j += LANES)
            sum += NAME(load)(weights + j, job->examples - j);
        *zeroth = NAME(sum)(sum);
        for (int64_t start = 0; start < job->examples; start += most) {
            const int64_t count = job->examples - start < most ? job->examples - start : most;
            struct NAME(block) block = {ROW(job->x, prompt) + start * job->x.time, NULL, count, job->x.time, width, dim};
            NAME(state_block)(&block, weights + start, padded, padded + most * width);
            for (int64_t row = 0; row < dim; row += ROWS)
                NAME(state_rows)(&block, row, second, first);
        }
        for (int64_t i = 0; i < dim; i++) {
            second[i * dim + i] -= *zeroth;
            for (int64_t j = i; j < dim; j++)
                second[j * dim + i] = second[i * dim + j] *= K(0.70710678118654752440);
        }
    }
    free(memory);
}
#undef ROWS
