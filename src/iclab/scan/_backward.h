/* The scan, backward. Included like _lanes.h, after _forward.h. */

struct NAME(buffers) {
    VEC *h;                                /* (CHUNK + 1, S): the states of a chunk, the one before it first */
    VEC *e, *gain;                         /* (CHUNK, S): exp(delta A); with the zero-order hold its gain */
    VEC *grad_B, *grad_C;                  /* (CHUNK, S): gathered over the channels of a group */
    VEC *grad_h;                           /* (lanes of the group, S): gradient of the state after a chunk */
    VEC step[CHUNK], input[CHUNK], slope[CHUNK], grad[CHUNK]; /* of each token: delta, u, d delta/d raw, dL/d(C h + D u) */
};

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

/* The chunk again, forward: fills the buffers and, with a gate, writes the gate's gradient. */
INLINE void NAME(recompute)(const struct scan_job *job, int64_t row, int64_t channel, int64_t first, int length,
                            struct NAME(buffers) *buffers, const int states, const int hold, const int any_sign)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const REAL *rates = (const REAL *)job->rates + panel * PANEL_SIZE(states) + lane;
    const REAL *inverses = hold ? (const REAL *)job->inverses + panel * PANEL_SIZE(states) + lane : rates;
    const REAL *u = ROW(job->u, row) + first * job->u.time + channel;
    const REAL *delta = ROW(job->delta, row) + first * job->delta.time + channel;
    const REAL *grad_y = ROW(job->grad_y, row) + first * job->grad_y.time + channel;
    const REAL *z = job->z.data ? ROW(job->z, row) + first * job->z.time + channel : NULL;
    const REAL *in = ROW(job->B, row) + first * job->B.time, *out = ROW(job->C, row) + first * job->C.time;
    const VEC bias = job->bias ? NAME(load)((const REAL *)job->bias + channel, count) : NAME(all)(K(0));
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    const REAL *checkpoint = (const REAL *)job->checkpoints +
                             ((row * job->panels + panel) * ((job->length + CHUNK - 1) / CHUNK) + first / CHUNK) *
                                 PANEL_SIZE(states) +
                             lane;
    VEC *h = buffers->h;
    for (int n = 0; n < states; n++)
        h[n] = NAME(load)(checkpoint + n * PANEL, LANES);
    for (int t = 0; t < length; t++, h += states) {
        PREFETCH(u + 4 * job->u.time);
        PREFETCH(delta + 4 * job->delta.time);
        PREFETCH(grad_y + 4 * job->grad_y.time);
        const VEC input = NAME(load)(u, count), raw = NAME(load)(delta, count) + bias;
        const VEC step = job->softplus ? NAME(softplus)(raw) : raw;
        const VEC x = step * input;
        VEC y = skip * input;
        UNROLL
        for (int n = 0; n < states; n++) {
            VEC gain = step;
            const VEC rate = NAME(load)(rates + n * PANEL, LANES);
            const VEC e = NAME(decay)(step, rate, hold ? NAME(load)(inverses + n * PANEL, LANES) : rate, &gain, hold,
                                      any_sign);
            const VEC next = e * h[n] + (hold ? gain * input : x) * in[n];
            buffers->e[t * states + n] = e;
            if (hold)
                buffers->gain[t * states + n] = gain;
            h[states + n] = next;
            if (z)
                y += next * out[n];
        }
        VEC grad = NAME(load)(grad_y, count);
        if (z) {
            const VEC gate = NAME(load)(z, count), open = NAME(sigmoid)(gate);
            NAME(store)((REAL *)job->grad_z + (row * job->length + first + t) * job->channels + channel,
                        grad * y * open * (K(1) + gate * (K(1) - open)), count);
            grad *= gate * open;
            z += job->z.time;
        }
        buffers->step[t] = step, buffers->input[t] = input, buffers->grad[t] = grad;
        buffers->slope[t] = job->softplus ? NAME(sigmoid)(raw) : NAME(all)(K(1));
        u += job->u.time, delta += job->delta.time, grad_y += job->grad_y.time;
        in += job->B.time, out += job->C.time;
    }
}

/* The chunk from its last token to its first. `grad_h` holds dL/dh of the state after the chunk, then of the one before. */
INLINE void NAME(walk_back)(const struct scan_job *job, struct share share, int64_t row, int64_t channel, int64_t first,
                            int length, struct NAME(buffers) *buffers, VEC *grad_h, const int states, const int hold)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const int64_t slab_panel = share.slab * job->panels + panel, size = job->channels * states;
    const REAL *rates = (const REAL *)job->rates + panel * PANEL_SIZE(states) + lane;
    const REAL *inverses = hold ? (const REAL *)job->inverses + panel * PANEL_SIZE(states) + lane : rates;
    REAL *grad_A = (REAL *)job->grad_A + slab_panel * PANEL_SIZE(states) + lane;
    REAL *grad_skip = (REAL *)job->grad_skip + slab_panel * PANEL + lane;
    REAL *grad_bias = (REAL *)job->grad_bias + slab_panel * PANEL + lane;
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    VEC skips = NAME(load)(grad_skip, LANES), biases = NAME(load)(grad_bias, LANES);
    for (int t = length - 1; t >= 0; t--) {
        const REAL *in = ROW(job->B, row) + (first + t) * job->B.time;
        const REAL *out = ROW(job->C, row) + (first + t) * job->C.time;
        const int64_t place = (row * job->length + first + t) * job->channels + channel;
        const VEC *before = buffers->h + t * states, *after = before + states;
        const VEC *e = buffers->e + t * states, *gain = buffers->gain + t * states;
        VEC *grad_B = buffers->grad_B + t * states, *grad_C = buffers->grad_C + t * states;
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
        UNROLL
        for (int n = 0; n < states; n++) {
            const VEC q = grad_h[n] + grad * out[n];
            const VEC rate = NAME(load)(rates + n * PANEL, LANES);
            grad_C[n] += grad * after[n];
            const VEC kept = q * e[n], lost = kept * before[n];
            VEC total = lost * step;
            if (hold) {
                const VEC driven = q * input * in[n];
                const VEC exponent = step * rate * K(0.6931471805599453);
                const MASK small = NAME(less)(NAME(magnitude)(exponent), NAME(all)(K(0.35)));
                const VEC curve = NAME(select)(small, step * step * NAME(hold_series)(exponent),
                                         (step * e[n] - gain[n]) * NAME(load)(inverses + n * PANEL, LANES));
                grad_B[n] += q * input * gain[n];
                through_input += q * gain[n] * in[n];
                through_gain += driven * e[n];
                total += driven * curve;
            } else {
                grad_B[n] += q * x;
                through_input += q * in[n];
            }
            through_decay += lost * rate;
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
        memset(buffers->grad_B, 0, length * states * sizeof(VEC));
        memset(buffers->grad_C, 0, length * states * sizeof(VEC));
        for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
            VEC *grad_h = buffers->grad_h + (channel - share.first_channel) / LANES * states;
            if (states == 16 && job->softplus && !job->zero_order_hold)
                NAME(backward_common)(job, share, row, channel, first, length, buffers, grad_h);
            else
                NAME(backward_any)(job, share, row, channel, first, length, buffers, grad_h);
        }
        const int64_t place = ((share.group * job->batch + row) * job->length + first) * states;
        for (int64_t i = 0; i < length * states; i++) {
            ((REAL *)job->grad_B)[place + i] = NAME(sum)(buffers->grad_B[i]);
            ((REAL *)job->grad_C)[place + i] = NAME(sum)(buffers->grad_C[i]);
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
    const size_t vectors = (size_t)states * (5 * CHUNK + 2 + width) * sizeof(VEC);
    buffers = aligned_memory(&memory, sizeof *buffers + 64 + vectors);
    if (!buffers) {
        job->failed = 1;
        return;
    }
    VEC *free_vectors = (VEC *)(((uintptr_t)(buffers + 1) + 63) & ~(uintptr_t)63);
    buffers->h = free_vectors, free_vectors += (CHUNK + 1) * states;
    buffers->e = free_vectors, free_vectors += CHUNK * states;
    buffers->grad_B = free_vectors, free_vectors += CHUNK * states;
    buffers->grad_C = free_vectors, free_vectors += CHUNK * states;
    buffers->grad_h = free_vectors, free_vectors += width * states;
    buffers->gain = free_vectors; /* and S more, for a gradient of the states */
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
