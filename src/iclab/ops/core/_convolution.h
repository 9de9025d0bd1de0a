/* The causal depthwise convolution with SiLU, forward and backward: LANES channels at a time through all tokens, the
 * last `taps` of them in registers. Included like _lanes.h. */

struct NAME(window) { /* of LANES channels: weights, the last inputs and gradients, the newest last; sums of gradients */
    VEC *weight, *input, *grad, *sum; /* (taps,) each, but sum (taps + 1,), the bias's last */
    VEC bias;
    int64_t count; /* channels from here to the last one, LANES where there are more */
};

/* The convolution at the newest input. */
INLINE VEC NAME(convolve)(const struct NAME(window) *window, const int taps)
{
    VEC sum = window->bias;
    UNROLL
    for (int k = 0; k < taps; k++)
        sum += window->weight[k] * window->input[k];
    return sum;
}

INLINE void NAME(shift)(VEC *rows, VEC newest, const int taps)
{
    UNROLL
    for (int k = 0; k < taps - 1; k++)
        rows[k] = rows[k + 1];
    rows[taps - 1] = newest;
}

/* Weights, and the inputs before the first token. */
INLINE void NAME(open_window)(const struct convolution_job *job, int64_t row, int64_t channel,
                              struct NAME(window) *window, const int taps)
{
    const VEC zero = {0};
    const REAL *initial =
        job->initial ? (const REAL *)job->initial + row * (taps - 1) * job->channels + channel : NULL;
    window->bias = job->bias ? NAME(load)((const REAL *)job->bias + channel, window->count) : zero;
    UNROLL
    for (int k = 0; k < taps; k++) {
        window->weight[k] = NAME(load)((const REAL *)job->weight + k * job->channels + channel, window->count);
        window->input[k] = zero;
    }
    UNROLL
    for (int k = 0; k < taps - 1; k++)
        NAME(shift)(window->input, initial ? NAME(load)(initial + k * job->channels, window->count) : zero, taps);
}

INLINE void NAME(convolution_row)(const struct convolution_job *job, int64_t row, int64_t channel,
                                  struct NAME(window) *window, const int taps)
{
    const REAL *x = ROW(job->x, row) + channel;
    REAL *y = (REAL *)job->y + row * job->length * job->channels + channel;
    NAME(open_window)(job, row, channel, window, taps);
    for (int64_t t = 0; t < job->length; t++, x += job->x.time, y += job->channels) {
        PREFETCH(x + PANEL);
        NAME(shift)(window->input, NAME(load)(x, window->count), taps);
        VEC sum = NAME(convolve)(window, taps);
        if (job->silu)
            sum *= NAME(sigmoid)(sum);
        NAME(store)(y, sum, window->count);
    }
}

/* Take in the gradient before the activation at token t; the input that no later token sees has its gradient then. */
INLINE void NAME(push_gradient)(const struct convolution_job *job, int64_t row, int64_t channel, int64_t t, VEC grad,
                                struct NAME(window) *window, const int taps)
{
    const int64_t place = t - (taps - 1);
    VEC sum = NAME(all)(K(0));
    NAME(shift)(window->grad, grad, taps);
    UNROLL
    for (int k = 0; k < taps; k++)
        sum += window->weight[k] * window->grad[taps - 1 - k];
    if (place >= 0)
        NAME(store)((REAL *)job->grad_x + (row * job->length + place) * job->channels + channel, sum, window->count);
    else if (job->grad_initial)
        NAME(store)((REAL *)job->grad_initial + (row * (taps - 1) + t) * job->channels + channel, sum, window->count);
}

INLINE void NAME(convolution_back_row)(const struct convolution_job *job, int64_t row, int64_t channel,
                                       struct NAME(window) *window, REAL *grad_weight, const int taps)
{
    const int64_t width = job->panels * PANEL;
    const REAL *x = ROW(job->x, row) + channel, *grad_y = ROW(job->grad_y, row) + channel;
    NAME(open_window)(job, row, channel, window, taps);
    UNROLL
    for (int k = 0; k < taps; k++)
        window->grad[k] = NAME(all)(K(0));
    UNROLL
    for (int k = 0; k <= taps; k++)
        window->sum[k] = NAME(load)(grad_weight + k * width + channel, LANES);
    for (int64_t t = 0; t < job->length; t++, x += job->x.time, grad_y += job->grad_y.time) {
        PREFETCH(x + PANEL);
        PREFETCH(grad_y + PANEL);
        NAME(shift)(window->input, NAME(load)(x, window->count), taps);
        VEC grad = NAME(load)(grad_y, window->count);
        if (job->silu) {
            const VEC sum = NAME(convolve)(window, taps), open = NAME(sigmoid)(sum);
            grad *= open * (K(1) + sum * (K(1) - open));
        }
        UNROLL
        for (int k = 0; k < taps; k++)
            window->sum[k] += grad * window->input[k];
        window->sum[taps] += grad;
        NAME(push_gradient)(job, row, channel, t, grad, window, taps);
    }
    for (int64_t t = job->length; t < job->length + taps - 1; t++)
        NAME(push_gradient)(job, row, channel, t, NAME(all)(K(0)), window, taps);
    UNROLL
    for (int k = 0; k <= taps; k++)
        NAME(store)(grad_weight + k * width + channel, window->sum[k], LANES);
}

/* With a constant number of taps, and of channels, the window is in registers. */
TARGET APART static void NAME(forward_four_taps)(const struct convolution_job *job, int64_t row, int64_t channel)
{
    VEC weight[4], input[4];
    struct NAME(window) window = {weight, input, NULL, NULL, {0}, LANES};
    NAME(convolution_row)(job, row, channel, &window, 4);
}

TARGET APART static void NAME(backward_four_taps)(const struct convolution_job *job, int64_t row, int64_t channel,
                                                  REAL *grad_weight)
{
    VEC weight[4], input[4], grad[4], sum[5];
    struct NAME(window) window = {weight, input, grad, sum, {0}, LANES};
    NAME(convolution_back_row)(job, row, channel, &window, grad_weight, 4);
}

TARGET static void NAME(convolution_tasks)(int64_t begin, int64_t end, struct convolution_job *job, const int backward)
{
    const int64_t taps = job->taps, width = job->panels * PANEL;
    void *memory;
    VEC *vectors = aligned_memory(&memory, (4 * taps + 1) * sizeof(VEC));
    if (!vectors) {
        job->failed = 1;
        return;
    }
    struct NAME(window) window = {vectors, vectors + taps, vectors + 2 * taps, vectors + 3 * taps, {0}, 0};
    for (int64_t task = begin; task < end; task++) {
        const struct share share =
            share_of(job->batch, job->slabs, job->groups, job->panels, job->channels, task);
        REAL *grad_weight = backward ? (REAL *)job->grad_weight + share.slab * (taps + 1) * width : NULL;
        if (backward)
            for (int64_t k = 0; k <= taps; k++)
                memset(grad_weight + k * width + share.first_channel, 0,
                       (share.end_panel * PANEL - share.first_channel) * sizeof(REAL));
        for (int64_t row = share.first_row; row < share.end_row; row++)
            for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
                const int common = taps == 4 && job->channels - channel >= LANES;
                window.count = job->channels - channel;
                if (backward && common)
                    NAME(backward_four_taps)(job, row, channel, grad_weight);
                else if (backward)
                    NAME(convolution_back_row)(job, row, channel, &window, grad_weight, (int)taps);
                else if (common)
                    NAME(forward_four_taps)(job, row, channel);
                else
                    NAME(convolution_row)(job, row, channel, &window, (int)taps);
            }
    }
    free(memory);
}
