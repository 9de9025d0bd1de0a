/* What the one-layer model's zero-order hold keeps of each example behind the last one. Included like _lanes.h.
 *
 * With v = y/rho + b and L = log(1 + exp(-|v|)), log sigmoid(v) = min(v, 0) - L and log(1 - sigmoid(v)) =
 * -max(v, 0) - L. Sums run from the end, which keeps a huge value out of the sums of the examples after it. */

TARGET static void NAME(gate_tasks)(int64_t begin, int64_t end, struct gate_job *job)
{
    for (int64_t prompt = begin; prompt < end; prompt++) {
        const REAL *labels = (const REAL *)job->labels + prompt * job->examples;
        REAL *results = (REAL *)job->results + prompt * job->examples;
        double after = 0; /* in float32 equal terms would all round the same way */
        for (int64_t start = (job->examples - 1) / LANES * LANES; start >= 0; start -= LANES) {
            const int64_t count = job->examples - start < LANES ? job->examples - start : LANES;
            const VEC y = NAME(load)(labels + start, count), v = y / K(job->rho) + K(job->bias);
            const VEC both = NAME(softplus)(NAME(minus_magnitude)(v)), keep = -NAME(at_least)(v, K(0)) - both;
            REAL keeps[LANES], sums[LANES] = {0};
            memcpy(keeps, &keep, sizeof keep);
            for (int64_t j = count - 1; j >= 0; j--) {
                sums[j] = (REAL)after;
                after += keeps[j];
            }
            VEC result = NAME(at_most)(v, K(0)) - both - K(job->unit) + (NAME(load)(sums, LANES) + K(job->query));
            if (job->weighted)
                result = NAME(exp)(result) * y * K(job->share);
            NAME(store)(results + start, result, count);
        }
    }
}
