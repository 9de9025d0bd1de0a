/* All kernels for one instruction set, in float32 and float64. Included once for each set, with SET (the end of the
 * exported names), TARGET, and FLOAT_LANES and DOUBLE_LANES (numbers a vector holds) defined. */

#define INLINE TARGET static ALWAYS_INLINE

#define REAL float
#define BITS uint32_t
#define LANES FLOAT_LANES
#define NAME(name) JOIN(name, _float32_, SET)
#include "_lanes.h"
#include "_forward.h"
#include "_backward.h"
#include "_convolution.h"
#include "_hermite_state.h"
#include "_gate_weights.h"
#include "_norm.h"
#include "_exports.h"
#undef REAL
#undef BITS
#undef LANES
#undef NAME
#undef BIAS

#define REAL double
#define BITS uint64_t
#define LANES DOUBLE_LANES
#define NAME(name) JOIN(name, _float64_, SET)
#include "_lanes.h"
#include "_forward.h"
#include "_backward.h"
#include "_convolution.h"
#include "_hermite_state.h"
#include "_gate_weights.h"
#include "_norm.h"
#include "_exports.h"
#undef REAL
#undef BITS
#undef LANES
#undef NAME
#undef BIAS

#undef INLINE
#undef SET
#undef TARGET
#undef FLOAT_LANES
#undef DOUBLE_LANES
