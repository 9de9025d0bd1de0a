/* What Python calls: each does the tasks begin..end-1 of a job. Numbers below the normal ones count as zero meanwhile,
 * or a state that decays would slow the processor a hundredfold; but not in the norm, which has no decay. */

#define EXPORTED(name, job_type, call)                                      \
    TARGET EXPORT void NAME(name)(int64_t begin, int64_t end, void *pointer) \
    {                                                                       \
        job_type *job = pointer;                                            \
        const unsigned mode = flush_denormals();                            \
        call;                                                               \
        restore_mode(mode);                                                 \
    }
#define EXPORTED_AS_IT_IS(name, job_type, call)                              \
    TARGET EXPORT void NAME(name)(int64_t begin, int64_t end, void *pointer) \
    {                                                                       \
        job_type *job = pointer;                                            \
        call;                                                               \
    }

EXPORTED(scan_forward, struct scan_job, NAME(forward_tasks)(begin, end, job))
EXPORTED(scan_backward, struct scan_job, NAME(backward_tasks)(begin, end, job))
EXPORTED(convolution_forward, struct convolution_job, NAME(convolution_tasks)(begin, end, job, 0))
EXPORTED(convolution_backward, struct convolution_job, NAME(convolution_tasks)(begin, end, job, 1))
EXPORTED(hermite_state, struct state_job, NAME(state_tasks)(begin, end, job))
EXPORTED_AS_IT_IS(norm_forward, struct norm_job, NAME(norm_tasks)(begin, end, job, 0))
EXPORTED_AS_IT_IS(norm_backward, struct norm_job, NAME(norm_tasks)(begin, end, job, 1))
EXPORTED(gate_weights, struct gate_job, NAME(gate_tasks)(begin, end, job))
#undef EXPORTED
#undef EXPORTED_AS_IT_IS

/* total[i] = parts[0][i] + parts[1][i] + ..., added in that order. */
TARGET EXPORT void NAME(sum_parts)(const REAL *parts, int64_t count, int64_t size, REAL *total)
{
    if (size > 0)
        memset(total, 0, (size_t)size * sizeof(REAL));
    for (int64_t part = 0; part < count; part++)
        for (int64_t i = 0; i < size; i++)
            total[i] += parts[part * size + i];
}
