/* The scan, forward. Included like _lanes.h. */

INLINE void NAME(load_state)(VEC *h, const REAL *state, int64_t count, int64_t states)
{
    for (int64_t n = 0; n < states; n++) {
        REAL lanes[LANES] = {0};
        for (int64_t w = 0; w < count && w < LANES; w++)
            lanes[w] = state[w * states + n];
        memcpy(&h[n], lanes, sizeof h[n]);
    }
}

INLINE void NAME(store_state)(REAL *state, const VEC *h, int64_t count, int64_t states)
{
    for (int64_t n = 0; n < states; n++) {
        REAL lanes[LANES];
        memcpy(lanes, &h[n], sizeof h[n]);
        for (int64_t w = 0; w < count && w < LANES; w++)
            state[w * states + n] = lanes[w];
    }
}

/* exp(delta A), and the gain of the zero-order hold (exp(delta A) - 1)/A. `rate` is A log2(e). A negative step, where
 * one is possible, makes exponents positive: beyond the largest number they are infinite. */
INLINE VEC NAME(decay)(VEC delta, VEC rate, VEC inverse, VEC *gain, int hold, int any_sign)
{
    const VEC exponent = delta * rate;
    VEC power, x = NAME(at_least)(exponent, -BIAS);
    if (any_sign)
        x = NAME(at_most)(x, BIAS + K(0.49));
    const VEC k = NAME(nearest)(x, &power);
    const VEC rest = NAME(exp2_less_one)(x - k);
    VEC result = power * rest + power, less_one = hold ? power * rest + (power - K(1)) : power;
    if (any_sign) {
        const VEC infinity = NAME(all)((REAL)INFINITY);
        const MASK beyond = NAME(less)(NAME(all)(BIAS + K(1)), exponent);
        result = NAME(select)(beyond, infinity, result);
        less_one = NAME(select)(beyond, infinity, less_one);
    }
    if (hold)
        *gain = less_one * inverse;
    return result;
}

/* LANES channels of one row of the batch, all tokens. */
INLINE void NAME(forward_channels)(const struct scan_job *job, int64_t row, int64_t channel, VEC *h, const int states,
                                   const int hold, const int any_sign)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const REAL *rates = (const REAL *)job->rates + panel * PANEL_SIZE(states) + lane;
    const REAL *inverses = hold ? (const REAL *)job->inverses + panel * PANEL_SIZE(states) + lane : rates;
    const REAL *u = ROW(job->u, row) + channel, *delta = ROW(job->delta, row) + channel;
    const REAL *z = job->z.data ? ROW(job->z, row) + channel : NULL;
    const REAL *in = ROW(job->B, row), *out = ROW(job->C, row);
    REAL *y = (REAL *)job->y + row * job->length * job->channels + channel;
    const VEC bias = job->bias ? NAME(load)((const REAL *)job->bias + channel, count) : NAME(all)(K(0));
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    const int64_t chunks = (job->length + CHUNK - 1) / CHUNK, size = job->channels * states;
    REAL *checkpoint =
        job->checkpoints
            ? (REAL *)job->checkpoints + (row * job->panels + panel) * chunks * PANEL_SIZE(states) + lane
            : NULL;

    if (job->initial)
        NAME(load_state)(h, (const REAL *)job->initial + row * size + channel * states, count, states);
    else
        for (int n = 0; n < states; n++)
            h[n] = NAME(all)(K(0));

    for (int64_t t = 0; t < job->length; t++) {
        if (checkpoint && t % CHUNK == 0) {
            for (int n = 0; n < states; n++)
                NAME(store)(checkpoint + n * PANEL, h[n], LANES);
            checkpoint += PANEL_SIZE(states);
        }
        PREFETCH(u + 4 * job->u.time);
        PREFETCH(delta + 4 * job->delta.time);
        const VEC input = NAME(load)(u, count);
        VEC step = NAME(load)(delta, count) + bias;
        if (job->softplus)
            step = NAME(softplus)(step);
        const VEC x = step * input;
        VEC sums[2] = {skip * input, NAME(all)(K(0))};
        UNROLL
        for (int n = 0; n < states; n++) {
            VEC gain = step;
            const VEC rate = NAME(load)(rates + n * PANEL, LANES);
            const VEC e = NAME(decay)(step, rate, hold ? NAME(load)(inverses + n * PANEL, LANES) : rate, &gain, hold,
                                      any_sign);
            h[n] = e * h[n] + (hold ? gain * input : x) * in[n];
            sums[n % 2] += h[n] * out[n];
        }
        VEC result = sums[0] + sums[1];
        if (z) {
            const VEC gate = NAME(load)(z, count);
            result *= gate * NAME(sigmoid)(gate);
            z += job->z.time;
        }
        NAME(store)(y, result, count);
        if (job->all_states)
            NAME(store_state)((REAL *)job->all_states + (row * job->length + t) * size + channel * states, h, count,
                              states);
        u += job->u.time, delta += job->delta.time, in += job->B.time, out += job->C.time, y += job->channels;
    }
    if (job->last)
        NAME(store_state)((REAL *)job->last + row * size + channel * states, h, count, states);
}

/* A constant number of states lets the compiler keep the state in registers. */
#define FORWARD(states, h, hold, any_sign) \
    NAME(forward_channels)(job, row, channel, h, states, hold, any_sign)

TARGET static void NAME(forward_common)(const struct scan_job *job, int64_t row, int64_t channel)
{
    VEC h[16];
    FORWARD(16, h, 0, 0);
}

TARGET static void NAME(forward_any)(const struct scan_job *job, int64_t row, int64_t channel, VEC *h)
{
    if (job->zero_order_hold)
        FORWARD((int)job->states, h, 1, 1);
    else
        FORWARD((int)job->states, h, 0, 1);
}

TARGET static void NAME(forward_tasks)(int64_t begin, int64_t end, struct scan_job *job)
{
    void *memory;
    VEC *h = aligned_memory(&memory, job->states * sizeof(VEC));
    if (!h) {
        job->failed = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        const struct share share =
            share_of(job->batch, job->slabs, job->groups, job->panels, job->channels, task);
        for (int64_t row = share.first_row; row < share.end_row; row++)
            for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES)
                if (job->states == 16 && job->softplus && !job->zero_order_hold)
                    NAME(forward_common)(job, row, channel);
                else
                    NAME(forward_any)(job, row, channel, h);
    }
    free(memory);
}
#undef FORWARD
