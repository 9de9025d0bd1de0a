/* The selective scan, the causal convolution and the norm, forward and backward, and the one-layer model, for CPUs.
 *
 * Work is sequential in time and vectorised over channels: a block of channels keeps its state in registers or in the
 * first cache, so nothing of size (B, L, D, S) is ever in memory. Every CHUNK tokens the state is kept; the backward
 * pass computes the states between two kept ones again. Gradients of B and C, sums over channels, are gathered as
 * vectors and added up once a chunk; gradients of A, D and the bias, sums over the batch, one by slab of the batch.
 * Which number is added to which depends on shapes alone, not on the threads at work.
 *
 * A function takes a range of tasks, so that any pool of threads can call it. Python calls it through ctypes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PANEL 16 /* channels that lie together in A, in kept states and in partial sums: the widest vector */
#define CHUNK 16 /* tokens from one kept state to the next */

struct rows { /* (B, L, channels or states), the last dimension contiguous; strides in numbers */
    const void *data;
    int64_t batch, time;
};

struct scan_job {
    int64_t length, channels, states, panels;
    int64_t batch, slabs, groups; /* a task is a slab of the batch and a group of panels */
    int64_t softplus, zero_order_hold, failed;
    struct rows u, delta, z, B, C;
    const void *rates, *inverses; /* (panels, S, PANEL): A log2(e), 1/A */
    const void *skip, *bias;      /* (D,) or NULL */
    const void *initial;          /* (B, D, S) or NULL */
    void *y;                      /* (B, L, D) */
    void *last, *all_states;      /* (B, D, S) and (B, L, D, S), or NULL */
    void *checkpoints;            /* (B, panels, chunks, S, PANEL) or NULL */
    struct rows grad_y;
    const void *grad_last, *grad_states;    /* as last and all_states, or NULL */
    void *grad_u, *grad_delta, *grad_z;     /* (B, L, D); grad_z may be NULL */
    void *grad_A;                           /* (slabs, panels, S, PANEL) */
    void *grad_skip, *grad_bias;            /* (slabs, panels * PANEL) */
    void *grad_B, *grad_C;                  /* (groups, B, L, S) */
    void *grad_initial;                     /* (B, D, S) or NULL */
};

struct convolution_job {
    int64_t length, channels, taps, panels;
    int64_t batch, slabs, groups;
    int64_t silu, failed;
    struct rows x;
    const void *weight, *bias; /* (taps, D); (D,) or NULL */
    const void *initial;       /* (B, taps - 1, D) or NULL */
    void *y;                   /* (B, L, D) */
    struct rows grad_y;
    void *grad_x;       /* (B, L, D) */
    void *grad_weight;  /* (slabs, taps + 1, panels * PANEL), the bias's last */
    void *grad_initial; /* (B, taps - 1, D) or NULL */
};

struct state_job { /* a task is a prompt */
    int64_t tasks, examples, dim, failed;
    struct rows x;                 /* (B, N, d) */
    const void *weights;           /* (B, N) */
    void *zeroth, *first, *second; /* (B,), (B, d), (B, d, d) */
};

struct gate_job { /* a task is a prompt */
    int64_t tasks, examples, weighted, failed;
    double rho, bias, unit, query; /* unit and query: log sigmoid(b), log(1 - sigmoid(b)) */
    double share;                  /* 1/N */
    const void *labels;            /* (B, N) */
    void *results;                 /* (B, N): log G, or with `weighted` G y share */
};

struct norm_job { /* a task is a slab of rows */
    int64_t tasks, rows, width, failed;
    double epsilon;
    const void *x, *weight; /* (R, W), (W,) */
    void *y, *scale;        /* (R, W), (R,): 1/sqrt(mean(x^2) + eps) */
    const void *grad_y;     /* (R, W) */
    void *grad_x;           /* (R, W) */
    void *grad_weight;      /* (tasks, W) */
};

struct share { /* of one task; channels end where the tensor's do */
    int64_t slab, group, first_row, end_row, first_channel, end_channel, end_panel;
};

static struct share share_of(int64_t batch, int64_t slabs, int64_t groups, int64_t panels, int64_t channels,
                             int64_t task)
{
    struct share s;
    s.slab = task / groups, s.group = task % groups;
    s.first_row = batch * s.slab / slabs, s.end_row = batch * (s.slab + 1) / slabs;
    s.first_channel = PANEL * (panels * s.group / groups);
    s.end_panel = panels * (s.group + 1) / groups;
    s.end_channel = s.end_panel * PANEL < channels ? s.end_panel * PANEL : channels;
    return s;
}

static void *aligned_memory(void **memory, size_t size)
{
    *memory = malloc(size + 64);
    return *memory ? (void *)(((uintptr_t)*memory + 63) & ~(uintptr_t)63) : NULL;
}

#define PANEL_SIZE(states) ((int64_t)(states) * PANEL) /* a panel's part of A or of a kept state */
#define ROW(tensor, row) ((const REAL *)(tensor).data + (row) * (tensor).batch)
#define VEC NAME(vec)
#define MASK NAME(mask)
#define K(x) ((REAL)(x))
#define IS_FLOAT (sizeof(REAL) == 4)
#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)

#if defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))
#define PREFETCH(address) __builtin_prefetch(address)
/* The compiler knows nothing of the pointer from here on: what lies at fixed distances from it is found by them. */
#define IN_MEMORY(pointer) __asm__("" : "+r"(pointer))
#if defined(__clang__)
#define UNROLL _Pragma("unroll 16")
#else
#define UNROLL _Pragma("GCC unroll 16")
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between inlined functions only */
#endif
#else
#define EXPORT __declspec(dllexport)
#define ALWAYS_INLINE __forceinline
#define APART
#define PREFETCH(address)
#define IN_MEMORY(pointer)
#define UNROLL
#endif

#if defined(__GNUC__) && defined(__x86_64__)
static unsigned flush_denormals(void)
{
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8040);
    return mode;
}
static void restore_mode(unsigned mode) { __builtin_ia32_ldmxcsr(mode); }
#else
static unsigned flush_denormals(void) { return 0; }
static void restore_mode(unsigned mode) { (void)mode; }
#endif

/* The baseline of the machine the compiler was told of: vectors of 16 bytes where the language has vectors. */
#define SET baseline
#define TARGET
#if defined(__GNUC__)
#define FLOAT_LANES 4
#define DOUBLE_LANES 2
#else
#define FLOAT_LANES 1
#define DOUBLE_LANES 1
#endif
#include "_kernels.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define SET avx2
#define TARGET __attribute__((target("avx2,fma")))
#define FLOAT_LANES 8
#define DOUBLE_LANES 4
#include "_kernels.h"

#define SET avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define FLOAT_LANES 16
#define DOUBLE_LANES 8
#include "_kernels.h"
#endif

/* The instruction sets of this processor that kernels are here for, the best first. */
EXPORT const char *scan_instruction_sets(void)
{
#if defined(__GNUC__) && defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
            return "avx512 avx2 baseline";
        return "avx2 baseline";
    }
#endif
    return "baseline";
}

/* Tasks of a job for the threads of a team, each of which calls `scan_team`: they take one piece after another. */
struct team {
    void (*kernel)(int64_t begin, int64_t end, void *job);
    void *job;
    int64_t tasks, pieces, next; /* next: the first piece that no thread has taken */
};

EXPORT void scan_team(void *pointer)
{
    struct team *team = pointer;
    for (;;) {
#if defined(__GNUC__)
        const int64_t piece = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED);
#else
        const int64_t piece = team->next++; /* one thread alone: a team needs GCC's OpenMP */
#endif
        if (piece >= team->pieces)
            return;
        team->kernel(team->tasks * piece / team->pieces, team->tasks * (piece + 1) / team->pieces, team->job);
    }
}

/* A module, so that Python's import machinery finds the file; without Python's headers it is a plain library. */
#if __has_include(<Python.h>)
#include <Python.h>
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", "Kernels of iclab.ops, called through ctypes.", -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
#endif
