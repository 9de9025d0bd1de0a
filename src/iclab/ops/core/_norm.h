/* weight x / sqrt(mean(x^2) + eps) over rows, forward and backward. Included like _lanes.h. A task is a slab of rows. */

INLINE REAL NAME(dot)(const REAL *a, const REAL *b, int64_t width)
{
    VEC sums[4];
    for (int k = 0; k < 4; k++)
        sums[k] = NAME(all)(K(0));
    int64_t i = 0;
    for (; i + 4 * LANES <= width; i += 4 * LANES) {
        UNROLL
        for (int k = 0; k < 4; k++)
            sums[k] += NAME(load)(a + i + k * LANES, LANES) * NAME(load)(b + i + k * LANES, LANES);
    }
    for (; i < width; i += LANES)
        sums[0] += NAME(load)(a + i, width - i) * NAME(load)(b + i, width - i);
    return NAME(sum)((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

INLINE void NAME(norm_row)(const struct norm_job *job, int64_t row)
{
    const int64_t width = job->width;
    const REAL *x = (const REAL *)job->x + row * width, *weight = job->weight;
    REAL *y = (REAL *)job->y + row * width;
    const REAL scale = K(1) / (REAL)sqrt((double)(NAME(dot)(x, x, width) / (REAL)width + (REAL)job->epsilon));
    ((REAL *)job->scale)[row] = scale;
    for (int64_t i = 0; i < width; i += LANES)
        NAME(store)(y + i, NAME(load)(x + i, width - i) * scale * NAME(load)(weight + i, width - i), width - i);
}

/* With n = x scale and g = weight dL/dy: dL/dx = scale (g - n mean(g n)), dL/dweight = sum over rows of n dL/dy. */
INLINE void NAME(norm_back_row)(const struct norm_job *job, int64_t row, REAL *scaled, REAL *grad_weight)
{
    const int64_t width = job->width;
    const REAL *x = (const REAL *)job->x + row * width, *grad_y = (const REAL *)job->grad_y + row * width;
    const REAL *weight = job->weight, scale = ((const REAL *)job->scale)[row];
    REAL *grad_x = (REAL *)job->grad_x + row * width;
    for (int64_t i = 0; i < width; i += LANES) {
        const VEC grad = NAME(load)(grad_y + i, width - i), normed = NAME(load)(x + i, width - i) * scale;
        NAME(store)(scaled + i, grad * NAME(load)(weight + i, width - i), LANES);
        NAME(store)(grad_weight + i, NAME(load)(grad_weight + i, width - i) + grad * normed, width - i);
    }
    const REAL mean = NAME(dot)(scaled, x, width) / (REAL)width * scale * scale;
    for (int64_t i = 0; i < width; i += LANES)
        NAME(store)(grad_x + i, (NAME(load)(scaled + i, LANES) - NAME(load)(x + i, width - i) * mean) * scale, width - i);
}

TARGET static void NAME(norm_tasks)(int64_t begin, int64_t end, struct norm_job *job, const int backward)
{
    void *memory = NULL;
    REAL *scaled = backward ? aligned_memory(&memory, (job->width + LANES) * sizeof(REAL)) : NULL;
    if (backward && !scaled) {
        job->failed = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = job->rows * task / job->tasks, last = job->rows * (task + 1) / job->tasks;
        REAL *grad_weight = backward ? (REAL *)job->grad_weight + task * job->width : NULL;
        if (backward)
            memset(grad_weight, 0, job->width * sizeof(REAL));
        for (int64_t row = first; row < last; row++)
            if (backward)
                NAME(norm_back_row)(job, row, scaled, grad_weight);
            else
                NAME(norm_row)(job, row);
    }
    free(memory);
}
