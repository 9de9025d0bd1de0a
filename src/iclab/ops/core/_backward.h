/* The scan, backward. Included like _lanes.h, after _forward.h. */

struct NAME(buffers) {
    VEC *tokens;              /* (CHUNK + 1, PARTS, S): what `part` names, the parts of a token side by side */
    VEC *gain;                /* (CHUNK + 1, S): with the zero-order hold its gain; a place for a gradient of the state */
    VEC *grad_h;              /* (lanes of the group, S): gradient of the state after a chunk */
    VEC *rate, *inverse;      /* (S,) */
    VEC step[CHUNK], input[CHUNK], slope[CHUNK], grad[CHUNK]; /* of each token: delta, u, d delta/d raw, dL/d(C h + D u) */
    VEC y[CHUNK];                                             /* C h + D u */
};

/* The state before a token, and exp(delta A), of a block of channels; gradients gathered over the channels of a group. */
enum NAME(part) { NAME(STATE), NAME(DECAY), NAME(GRAD_B), NAME(GRAD_C), NAME(PARTS) };

/* (exp(x)(x - 1) + 1)/x^2 = sum_k x^k (k + 1)/(k + 2)!, for |x| <= 1/2. */
INLINE VEC NAME(hold_series)(VEC x)
{
    const int terms = IS_FLOAT ? 8 : 15;
    VEC sum = NAME(all)(K(0));
    REAL factorial = IS_FLOAT ? K(3628800) : K(355687428096000); /* (terms + 2)! */
    for (int k = terms; k >= 0; k--) {
        sum = sum * x + K(k + 1) / factorial;
        factorial /= K(k + 2);
    }
    return sum;
}

INLINE void NAME(recompute_chunk)(const struct scan_job *job, int64_t row, int64_t channel, int64_t first, int length,
                                  struct NAME(buffers) *buffers, VEC skip, const int states, const int hold,
                                  const int range)
{
    const REAL *in = ROW(job->B, row) + first * job->B.time, *out = ROW(job->C, row) + first * job->C.time;
    VEC *token = buffers->tokens;
    const VEC *rate = buffers->rate, *inverse = buffers->inverse;
    IN_MEMORY(rate);
    for (int t = 0; t < length; t++) {
        IN_MEMORY(token);
        /* The channels that come next, out of memory while this token keeps the processor busy. */
        PREFETCH(ROW(job->u, row) + (first + t) * job->u.time + channel + PANEL);
        PREFETCH(ROW(job->delta, row) + (first + t) * job->delta.time + channel + PANEL);
        PREFETCH(ROW(job->grad_y, row) + (first + t) * job->grad_y.time + channel + PANEL);
        if (job->z.data)
            PREFETCH(ROW(job->z, row) + (first + t) * job->z.time + channel + PANEL);
        VEC *next = token + NAME(PARTS) * states;
        const VEC input = buffers->input[t], step = buffers->step[t], x = step * input;
        VEC y = skip * input;
        UNROLL
        for (int n = 0; n < states; n++) {
            VEC gain = step;
            const VEC e = NAME(decay)(step, rate[n], hold ? inverse[n] : step, &gain, hold, range);
            const VEC h = e * token[n] + (hold ? gain * input : x) * in[n];
            token[NAME(DECAY) * states + n] = e;
            if (hold)
                buffers->gain[t * states + n] = gain;
            next[n] = h;
            y += h * out[n];
        }
        buffers->y[t] = y;
        token = next, in += job->B.time, out += job->C.time;
    }
}

/* The chunk again, forward: fills the buffers and, with a gate, writes the gate's gradient. */
INLINE void NAME(recompute)(const struct scan_job *job, int64_t row, int64_t channel, int64_t first, int length,
                            struct NAME(buffers) *buffers, const int states, const int hold, const int any_sign)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const REAL *u = ROW(job->u, row) + first * job->u.time + channel;
    const REAL *delta = ROW(job->delta, row) + first * job->delta.time + channel;
    const REAL *grad_y = ROW(job->grad_y, row) + first * job->grad_y.time + channel;
    const REAL *z = job->z.data ? ROW(job->z, row) + first * job->z.time + channel : NULL;
    const VEC bias = job->bias ? NAME(load)((const REAL *)job->bias + channel, count) : NAME(all)(K(0));
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    const REAL *checkpoint = (const REAL *)job->checkpoints +
                             ((row * job->panels + panel) * ((job->length + CHUNK - 1) / CHUNK) + first / CHUNK) *
                                 PANEL_SIZE(states) +
                             lane;
    NAME(load_panel)(buffers->tokens, checkpoint, states);
    const VEC fastest =
        NAME(load_panel)(buffers->rate, (const REAL *)job->rates + panel * PANEL_SIZE(states) + lane, states);
    if (hold)
        NAME(load_panel)(buffers->inverse, (const REAL *)job->inverses + panel * PANEL_SIZE(states) + lane, states);
    /* What is no part of the recurrence first: no token's has to wait for another's. */
    VEC longest = NAME(all)(K(0));
    for (int t = 0; t < length; t++) {
        const VEC raw = NAME(load)(delta + t * job->delta.time, count) + bias;
        const VEC step = job->softplus ? NAME(softplus)(raw) : raw;
        buffers->step[t] = step, longest = NAME(larger)(step, longest);
        buffers->slope[t] = job->softplus ? NAME(sigmoid)(raw) : NAME(all)(K(1));
        buffers->input[t] = NAME(load)(u + t * job->u.time, count);
        buffers->grad[t] = NAME(load)(grad_y + t * job->grad_y.time, count);
    }
    if (any_sign)
        NAME(recompute_chunk)(job, row, channel, first, length, buffers, skip, states, hold, NAME(ANY));
    else if (NAME(all_normal)(longest, fastest))
        NAME(recompute_chunk)(job, row, channel, first, length, buffers, skip, states, hold, NAME(NORMAL));
    else
        NAME(recompute_chunk)(job, row, channel, first, length, buffers, skip, states, hold, NAME(NEGATIVE));
    REAL *grad_z = z ? (REAL *)job->grad_z + (row * job->length + first) * job->channels + channel : NULL;
    for (int t = 0; z && t < length; t++) {
        const VEC gate = NAME(load)(z + t * job->z.time, count), open = NAME(sigmoid)(gate), grad = buffers->grad[t];
        NAME(store)(grad_z + t * job->channels, grad * buffers->y[t] * open * (K(1) + gate * (K(1) - open)), count);
        buffers->grad[t] = grad * gate * open;
    }
}

/* The chunk from its last token to its first. `grad_h` holds dL/dh of the state after the chunk, then of the one before. */
INLINE void NAME(walk_back)(const struct scan_job *job, struct share share, int64_t row, int64_t channel, int64_t first,
                            int length, struct NAME(buffers) *buffers, VEC *grad_h, const int states, const int hold)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const int64_t slab_panel = share.slab * job->panels + panel, size = job->channels * states;
    const VEC *rate = buffers->rate, *inverse = buffers->inverse;
    REAL *grad_A = (REAL *)job->grad_A + slab_panel * PANEL_SIZE(states) + lane;
    REAL *grad_skip = (REAL *)job->grad_skip + slab_panel * PANEL + lane;
    REAL *grad_bias = (REAL *)job->grad_bias + slab_panel * PANEL + lane;
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    VEC skips = NAME(load)(grad_skip, LANES), biases = NAME(load)(grad_bias, LANES);
    IN_MEMORY(rate);
    IN_MEMORY(grad_A);
    IN_MEMORY(grad_h);
    for (int t = length - 1; t >= 0; t--) {
        const REAL *in = ROW(job->B, row) + (first + t) * job->B.time;
        const REAL *out = ROW(job->C, row) + (first + t) * job->C.time;
        const int64_t place = (row * job->length + first + t) * job->channels + channel;
        VEC *token = buffers->tokens + t * NAME(PARTS) * states;
        const VEC *gain = buffers->gain + t * states;
        const VEC step = buffers->step[t], input = buffers->input[t], grad = buffers->grad[t];
        const VEC x = step * input;
        VEC through_input = NAME(all)(K(0)), through_decay = NAME(all)(K(0)), through_gain = NAME(all)(K(0));
        if (job->grad_states) {
            VEC *given = buffers->gain + CHUNK * states;
            NAME(load_state)(given, (const REAL *)job->grad_states + (row * job->length + first + t) * size +
                                        channel * states, count, states);
            for (int n = 0; n < states; n++)
                grad_h[n] += given[n];
        }
        IN_MEMORY(token);
        IN_MEMORY(in);
        IN_MEMORY(out);
        UNROLL
        for (int n = 0; n < states; n++) {
            VEC *grad_B = token + NAME(GRAD_B) * states + n, *grad_C = token + NAME(GRAD_C) * states + n;
            const VEC before = token[n], e = token[NAME(DECAY) * states + n], after = token[NAME(PARTS) * states + n];
            const VEC q = grad_h[n] + grad * out[n];
            *grad_C += grad * after;
            const VEC kept = q * e, lost = kept * before;
            VEC total = lost * step;
            if (hold) {
                const VEC driven = q * input * in[n];
                const VEC exponent = step * rate[n] * K(0.6931471805599453);
                const MASK small = NAME(less)(NAME(all)(K(-0.35)), NAME(minus_magnitude)(exponent));
                const VEC curve = NAME(select)(small, step * step * NAME(hold_series)(exponent),
                                               (step * e - gain[n]) * inverse[n]);
                *grad_B += q * input * gain[n];
                through_input += q * gain[n] * in[n];
                through_gain += driven * e;
                total += driven * curve;
            } else {
                *grad_B += q * x;
                through_input += q * in[n];
            }
            through_decay += lost * rate[n];
            NAME(store)(grad_A + n * PANEL, NAME(load)(grad_A + n * PANEL, LANES) + total, LANES);
            grad_h[n] = kept;
        }
        const VEC grad_step = through_decay * K(0.6931471805599453) + (hold ? through_gain : through_input * input);
        const VEC grad_raw = grad_step * buffers->slope[t];
        NAME(store)((REAL *)job->grad_u + place, grad * skip + (hold ? through_input : through_input * step), count);
        NAME(store)((REAL *)job->grad_delta + place, grad_raw, count);
        skips += grad * input;
        biases += grad_raw;
    }
    NAME(store)(grad_skip, skips, LANES);
    NAME(store)(grad_bias, biases, LANES);
}

#define BACKWARD(states, hold, any_sign)                                                            \
    NAME(recompute)(job, row, channel, first, length, buffers, states, hold, any_sign);             \
    NAME(walk_back)(job, share, row, channel, first, length, buffers, grad_h, states, hold)

TARGET static void NAME(backward_common)(const struct scan_job *job, struct share share, int64_t row, int64_t channel,
                                         int64_t first, int length, struct NAME(buffers) *buffers, VEC *grad_h)
{
    BACKWARD(16, 0, 0);
}

TARGET static void NAME(backward_any)(const struct scan_job *job, struct share share, int64_t row, int64_t channel,
                                      int64_t first, int length, struct NAME(buffers) *buffers, VEC *grad_h)
{
    const int states = (int)job->states;
    if (job->zero_order_hold) {
        BACKWARD(states, 1, 1);
    } else {
        BACKWARD(states, 0, 1);
    }
}

TARGET static void NAME(backward_row)(const struct scan_job *job, struct share share, int64_t row,
                                      struct NAME(buffers) *buffers)
{
    const int64_t states = job->states, size = job->channels * states;
    for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
        VEC *grad_h = buffers->grad_h + (channel - share.first_channel) / LANES * states;
        if (job->grad_last)
            NAME(load_state)(grad_h, (const REAL *)job->grad_last + row * size + channel * states,
                             job->channels - channel, states);
        else
            memset(grad_h, 0, states * sizeof(VEC));
    }
    for (int64_t first = (job->length - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
        const int length = (int)(job->length - first < CHUNK ? job->length - first : CHUNK);
        for (int t = 0; t < length; t++)
            memset(buffers->tokens + (t * NAME(PARTS) + NAME(GRAD_B)) * states, 0, 2 * states * sizeof(VEC));
        for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
            VEC *grad_h = buffers->grad_h + (channel - share.first_channel) / LANES * states;
            if (states == 16 && job->softplus && !job->zero_order_hold)
                NAME(backward_common)(job, share, row, channel, first, length, buffers, grad_h);
            else
                NAME(backward_any)(job, share, row, channel, first, length, buffers, grad_h);
        }
        const int64_t place = ((share.group * job->batch + row) * job->length + first) * states;
        for (int64_t t = 0; t < length; t++)
            for (int64_t n = 0; n < states; n++) {
                const VEC *token = buffers->tokens + t * NAME(PARTS) * states + n;
                ((REAL *)job->grad_B)[place + t * states + n] = NAME(sum)(token[NAME(GRAD_B) * states]);
                ((REAL *)job->grad_C)[place + t * states + n] = NAME(sum)(token[NAME(GRAD_C) * states]);
            }
    }
    if (job->grad_initial)
        for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES)
            NAME(store_state)((REAL *)job->grad_initial + row * size + channel * states,
                              buffers->grad_h + (channel - share.first_channel) / LANES * states,
                              job->channels - channel, states);
}

TARGET static void NAME(backward_tasks)(int64_t begin, int64_t end, struct scan_job *job)
{
    const int64_t states = job->states, width = (job->panels + job->groups - 1) / job->groups * PANEL / LANES;
    struct NAME(buffers) *buffers;
    void *memory;
    const size_t vectors = (size_t)states * ((NAME(PARTS) + 1) * (CHUNK + 1) + width + 2);
    buffers = aligned_memory(&memory, sizeof *buffers + 64 + vectors * sizeof(VEC));
    if (!buffers) {
        job->failed = 1;
        return;
    }
    VEC *free_vectors = (VEC *)(((uintptr_t)(buffers + 1) + 63) & ~(uintptr_t)63);
    buffers->tokens = free_vectors, free_vectors += NAME(PARTS) * (CHUNK + 1) * states;
    buffers->gain = free_vectors, free_vectors += (CHUNK + 1) * states;
    buffers->rate = free_vectors, free_vectors += states;
    buffers->inverse = free_vectors, free_vectors += states;
    buffers->grad_h = free_vectors;
    for (int64_t task = begin; task < end; task++) {
        const struct share share =
            share_of(job->batch, job->slabs, job->groups, job->panels, job->channels, task);
        const int64_t first = share.slab * job->panels + share.first_channel / PANEL;
        const int64_t panels = share.end_panel - share.first_channel / PANEL;
        memset((REAL *)job->grad_A + first * PANEL_SIZE(states), 0, panels * PANEL_SIZE(states) * sizeof(REAL));
        memset((REAL *)job->grad_skip + first * PANEL, 0, panels * PANEL * sizeof(REAL));
        memset((REAL *)job->grad_bias + first * PANEL, 0, panels * PANEL * sizeof(REAL));
        for (int64_t row = share.first_row; row < share.end_row; row++)
            NAME(backward_row)(job, share, row, buffers);
    }
    free(memory);
}
#undef BACKWARD
