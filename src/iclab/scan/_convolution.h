/* The causal depthwise convolution with SiLU, forward and backward: tokens outside, channels inside, so that memory is
 * read in order and the taps stay in the first cache. Included like _lanes.h. */

/* sources[k]: the row of inputs under tap k at token t; before the first token the initial state, or zeros. */
INLINE void NAME(find_sources)(const struct convolution_job *job, int64_t row, int64_t t, const REAL *zeros,
                               const REAL **sources)
{
    const int64_t before = job->taps - 1;
    for (int64_t k = 0; k < job->taps; k++) {
        const int64_t place = t - before + k;
        if (place >= 0)
            sources[k] = ROW(job->x, row) + place * job->x.time;
        else
            sources[k] =
                job->initial ? (const REAL *)job->initial + (row * before + place + before) * job->channels : zeros;
    }
}

INLINE VEC NAME(convolve)(const struct convolution_job *job, const REAL *const *sources, int64_t channel, const int taps)
{
    const int64_t count = job->channels - channel;
    VEC sum = job->bias ? NAME(load)((const REAL *)job->bias + channel, count) : NAME(all)(K(0));
    for (int k = 0; k < taps; k++)
        sum += NAME(load)((const REAL *)job->weight + k * job->channels + channel, count) *
               NAME(load)(sources[k] + channel, count);
    return sum;
}

INLINE void NAME(convolution_row)(const struct convolution_job *job, struct share share, int64_t row, const REAL *zeros,
                                  const REAL **sources, const int taps)
{
    for (int64_t t = 0; t < job->length; t++) {
        REAL *y = (REAL *)job->y + (row * job->length + t) * job->channels;
        NAME(find_sources)(job, row, t, zeros, sources);
        for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
            VEC sum = NAME(convolve)(job, sources, channel, taps);
            if (job->silu)
                sum *= NAME(sigmoid)(sum);
            NAME(store)(y + channel, sum, job->channels - channel);
        }
    }
}

/* `ring` holds the gradients before the activation of the last `taps` tokens seen, token t in row t % taps. */
INLINE void NAME(convolution_back_row)(const struct convolution_job *job, struct share share, int64_t row,
                                       const REAL *zeros, const REAL **sources, REAL *ring, REAL *grad_weight,
                                       const int taps)
{
    const int64_t before = taps - 1, width = job->panels * PANEL;
    REAL *grad_bias = grad_weight + taps * width;
    for (int64_t t = job->length - 1; t >= (job->grad_initial ? -before : 0); t--) {
        if (t >= 0) {
            const REAL *grad_y = ROW(job->grad_y, row) + t * job->grad_y.time;
            REAL *grads = ring + t % taps * width;
            NAME(find_sources)(job, row, t, zeros, sources);
            for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
                const int64_t count = job->channels - channel;
                VEC grad = NAME(load)(grad_y + channel, count);
                if (job->silu) {
                    const VEC sum = NAME(convolve)(job, sources, channel, taps), open = NAME(sigmoid)(sum);
                    grad *= open * (K(1) + sum * (K(1) - open));
                }
                NAME(store)(grads + channel, grad, LANES);
                NAME(store)(grad_bias + channel, NAME(load)(grad_bias + channel, LANES) + grad, LANES);
                for (int k = 0; k < taps; k++) {
                    REAL *total = grad_weight + k * width + channel;
                    NAME(store)(total, NAME(load)(total, LANES) + grad * NAME(load)(sources[k] + channel, count), LANES);
                }
            }
        }
        for (int k = 0; k < taps; k++) {
            const int64_t later = t + before - k;
            sources[k] = later >= 0 && later < job->length ? ring + later % taps * width : zeros;
        }
        REAL *grad_x = t >= 0 ? (REAL *)job->grad_x + (row * job->length + t) * job->channels
                              : (REAL *)job->grad_initial + (row * before + t + before) * job->channels;
        for (int64_t channel = share.first_channel; channel < share.end_channel; channel += LANES) {
            const int64_t count = job->channels - channel;
            VEC sum = NAME(all)(K(0));
            for (int k = 0; k < taps; k++)
                sum += NAME(load)((const REAL *)job->weight + k * job->channels + channel, count) *
                       NAME(load)(sources[k] + channel, LANES);
            NAME(store)(grad_x + channel, sum, count);
        }
    }
}

TARGET static void NAME(convolution_tasks)(int64_t begin, int64_t end, struct convolution_job *job, const int backward)
{
    const int64_t taps = job->taps, width = job->panels * PANEL, rows = 1 + (backward ? taps : 0);
    void *memory;
    REAL *zeros = aligned_memory(&memory, rows * width * sizeof(REAL) + taps * sizeof(REAL *));
    if (!zeros) {
        job->failed = 1;
        return;
    }
    REAL *ring = zeros + width;
    const REAL **sources = (const REAL **)(zeros + rows * width);
    memset(zeros, 0, width * sizeof(REAL));
    for (int64_t task = begin; task < end; task++) {
        const struct share share =
            share_of(job->batch, job->slabs, job->groups, job->panels, job->channels, task);
        REAL *grad_weight = (REAL *)job->grad_weight + share.slab * (taps + 1) * width;
        if (backward)
            for (int64_t k = 0; k <= taps; k++)
                memset(grad_weight + k * width + share.first_channel, 0,
                       (share.end_panel * PANEL - share.first_channel) * sizeof(REAL));
        for (int64_t row = share.first_row; row < share.end_row; row++) {
            if (backward && taps == 4)
                NAME(convolution_back_row)(job, share, row, zeros, sources, ring, grad_weight, 4);
            else if (backward)
                NAME(convolution_back_row)(job, share, row, zeros, sources, ring, grad_weight, (int)taps);
            else if (taps == 4)
                NAME(convolution_row)(job, share, row, zeros, sources, 4);
            else
                NAME(convolution_row)(job, share, row, zeros, sources, (int)taps);
        }
    }
    free(memory);
}
