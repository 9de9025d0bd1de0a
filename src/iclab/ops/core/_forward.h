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

/* What is known of the exponents delta A log2(e): in [1 - BIAS, 0], where powers are normal numbers; at most 0; or that a
 * negative step may be there. The first two give the same bits where both are right. */
enum NAME(range) { NAME(NORMAL), NAME(NEGATIVE), NAME(ANY) };

/* exp(delta A), and the gain of the zero-order hold (exp(delta A) - 1)/A, which is for ANY alone. `rate` is A log2(e).
 * A power below the normal numbers is 0. A negative step makes exponents positive: from BIAS + 1/2 on, just below the
 * largest number, powers are infinite. */
INLINE VEC NAME(decay)(VEC delta, VEC rate, VEC inverse, VEC *gain, const int hold, const int range)
{
    const VEC exponent = delta * rate;
    VEC power, x = exponent;
    if (range == NAME(ANY))
        x = NAME(at_most)(NAME(at_least)(x, -BIAS), BIAS + K(0.49));
    const VEC k = NAME(nearest)(x, &power);
    const VEC rest = NAME(exp2_less_one)(x - k);
    VEC result = power * rest + power, less_one = hold ? power * rest + (power - K(1)) : power;
    if (range == NAME(NEGATIVE)) {
        const MASK gone = NAME(less)(k, NAME(all)(K(1) - BIAS));
        result = NAME(select)(gone, NAME(all)(K(0)), result);
    }
    if (range == NAME(ANY)) {
        const VEC infinity = NAME(all)((REAL)INFINITY);
        const MASK beyond = NAME(less)(NAME(all)(BIAS + K(0.49)), exponent);
        result = NAME(select)(beyond, infinity, result);
        less_one = NAME(select)(beyond, infinity, less_one);
    }
    if (hold)
        *gain = less_one * inverse;
    return result;
}

/* Whether every exponent is at least 1 - BIAS, for steps >= 0 up to `longest` and the channels' largest rates `fastest`. */
INLINE int NAME(all_normal)(VEC longest, VEC fastest)
{
    REAL lanes[LANES];
    const VEC least = longest * fastest;
    memcpy(lanes, &least, sizeof lanes);
    int normal = 1;
    for (int i = 0; i < LANES; i++)
        normal &= lanes[i] >= K(1) - BIAS;
    return normal;
}

/* The rates, or inverses, of LANES channels out of their panel; returns the lowest ones. */
INLINE VEC NAME(load_panel)(VEC *to, const REAL *panel, const int states)
{
    VEC lowest = NAME(load)(panel, LANES);
    UNROLL
    for (int n = 0; n < states; n++) {
        to[n] = NAME(load)(panel + n * PANEL, LANES);
        lowest = NAME(smaller)(to[n], lowest); /* NaN where the first is NaN; another NaN is passed over */
    }
    return lowest;
}

struct NAME(tokens) { /* a chunk of LANES channels: delta and silu(z) of each token, and where its first one lies */
    VEC step[CHUNK], gate[CHUNK];
    const REAL *u, *delta, *z, *in, *out;
    REAL *y;
    int length;
};

INLINE void NAME(forward_chunk)(const struct scan_job *job, struct NAME(tokens) *tokens, VEC skip, int64_t count,
                                REAL *all_states, VEC *h, const VEC *rate, const VEC *inverse, const int states,
                                const int hold, const int range)
{
    const REAL *u = tokens->u, *in = tokens->in, *out = tokens->out;
    REAL *y = tokens->y;
    IN_MEMORY(h);
    IN_MEMORY(rate);
    for (int t = 0; t < tokens->length; t++) {
        PREFETCH(u + 4 * job->u.time);
        PREFETCH(tokens->delta + (CHUNK + t) * job->delta.time);
        if (tokens->z)
            PREFETCH(tokens->z + (CHUNK + t) * job->z.time);
        const VEC input = NAME(load)(u, count), step = tokens->step[t], x = step * input;
        VEC sums[2] = {skip * input, NAME(all)(K(0))};
        UNROLL
        for (int n = 0; n < states; n++) {
            VEC gain = step;
            const VEC e = NAME(decay)(step, rate[n], hold ? inverse[n] : step, &gain, hold, range);
            h[n] = e * h[n] + (hold ? gain * input : x) * in[n];
            sums[n % 2] += h[n] * out[n];
        }
        const VEC result = sums[0] + sums[1];
        NAME(store)(y, tokens->z ? result * tokens->gate[t] : result, count);
        if (all_states)
            NAME(store_state)(all_states + t * job->channels * states, h, count, states);
        u += job->u.time, in += job->B.time, out += job->C.time, y += job->channels;
    }
}

/* LANES channels of one row of the batch, all tokens. `h` has place for a state, `rate` and `inverse` for as many. */
INLINE void NAME(forward_channels)(const struct scan_job *job, int64_t row, int64_t channel, VEC *h, VEC *rate,
                                   VEC *inverse, const int states, const int hold, const int any_sign)
{
    const int64_t count = job->channels - channel, panel = channel / PANEL, lane = channel % PANEL;
    const REAL *delta = ROW(job->delta, row) + channel;
    const REAL *z = job->z.data ? ROW(job->z, row) + channel : NULL;
    const VEC bias = job->bias ? NAME(load)((const REAL *)job->bias + channel, count) : NAME(all)(K(0));
    const VEC skip = job->skip ? NAME(load)((const REAL *)job->skip + channel, count) : NAME(all)(K(0));
    const int64_t chunks = (job->length + CHUNK - 1) / CHUNK, size = job->channels * states;
    REAL *checkpoint =
        job->checkpoints
            ? (REAL *)job->checkpoints + (row * job->panels + panel) * chunks * PANEL_SIZE(states) + lane
            : NULL;
    const VEC fastest =
        NAME(load_panel)(rate, (const REAL *)job->rates + panel * PANEL_SIZE(states) + lane, states);
    if (hold)
        NAME(load_panel)(inverse, (const REAL *)job->inverses + panel * PANEL_SIZE(states) + lane, states);
    if (job->initial)
        NAME(load_state)(h, (const REAL *)job->initial + row * size + channel * states, count, states);
    else
        for (int n = 0; n < states; n++)
            h[n] = NAME(all)(K(0));

    for (int64_t first = 0; first < job->length; first += CHUNK) {
        struct NAME(tokens) tokens;
        tokens.u = ROW(job->u, row) + first * job->u.time + channel;
        tokens.in = ROW(job->B, row) + first * job->B.time, tokens.out = ROW(job->C, row) + first * job->C.time;
        tokens.y = (REAL *)job->y + (row * job->length + first) * job->channels + channel;
        tokens.length = (int)(job->length - first < CHUNK ? job->length - first : CHUNK);
        tokens.delta = delta, tokens.z = z;
        REAL *all_states = job->all_states
                               ? (REAL *)job->all_states + (row * job->length + first) * size + channel * states
                               : NULL;
        if (checkpoint) {
            for (int n = 0; n < states; n++)
                NAME(store)(checkpoint + n * PANEL, h[n], LANES);
            checkpoint += PANEL_SIZE(states);
        }
        /* Steps and gates first: no token's has to wait for another's. */
        VEC longest = NAME(all)(K(0));
        for (int t = 0; t < tokens.length; t++, delta += job->delta.time) {
            VEC step = NAME(load)(delta, count) + bias;
            if (job->softplus)
                step = NAME(softplus)(step);
            tokens.step[t] = step, longest = NAME(larger)(step, longest);
        }
        for (int t = 0; z && t < tokens.length; t++, z += job->z.time) {
            const VEC gate = NAME(load)(z, count);
            tokens.gate[t] = gate * NAME(sigmoid)(gate);
        }
        if (any_sign)
            NAME(forward_chunk)(job, &tokens, skip, count, all_states, h, rate, inverse, states, hold, NAME(ANY));
        else if (NAME(all_normal)(longest, fastest))
            NAME(forward_chunk)(job, &tokens, skip, count, all_states, h, rate, inverse, states, hold, NAME(NORMAL));
        else
            NAME(forward_chunk)(job, &tokens, skip, count, all_states, h, rate, inverse, states, hold, NAME(NEGATIVE));
    }
    if (job->last)
        NAME(store_state)((REAL *)job->last + row * size + channel * states, h, count, states);
}

/* With a constant number of states the loop over them is unrolled. */
TARGET static void NAME(forward_common)(const struct scan_job *job, int64_t row, int64_t channel)
{
    VEC h[16], rate[16];
    NAME(forward_channels)(job, row, channel, h, rate, NULL, 16, 0, 0);
}

TARGET static void NAME(forward_any)(const struct scan_job *job, int64_t row, int64_t channel, VEC *h)
{
    const int states = (int)job->states;
    if (job->zero_order_hold)
        NAME(forward_channels)(job, row, channel, h, h + states, h + 2 * states, states, 1, 1);
    else
        NAME(forward_channels)(job, row, channel, h, h + states, NULL, states, 0, 1);
}

TARGET static void NAME(forward_tasks)(int64_t begin, int64_t end, struct scan_job *job)
{
    void *memory;
    VEC *h = aligned_memory(&memory, 3 * job->states * sizeof(VEC));
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
