/* A vector of LANES numbers and the functions of it that the kernels need. Included once for each number type and
 * instruction set, with REAL, BITS (the integer of its size), LANES, TARGET and NAME(x) defined.
 *
 * One lane is one channel. GCC and Clang have vectors in the language; elsewhere LANES is 1 and a vector is a number. */

#if LANES == 1
typedef REAL NAME(vec);
typedef BITS NAME(mask);
#else
typedef REAL NAME(vec) __attribute__((vector_size(sizeof(REAL) * LANES)));
typedef BITS NAME(mask) __attribute__((vector_size(sizeof(REAL) * LANES)));
#endif

INLINE VEC NAME(all)(REAL value)
{
    const VEC zero = {0};
    return value - zero; /* which compilers know to be the value, unlike value + 0, where it may be -0 */
}

INLINE MASK NAME(bits)(VEC a)
{
    MASK result;
    memcpy(&result, &a, sizeof a);
    return result;
}

INLINE VEC NAME(from_bits)(MASK a)
{
    VEC result;
    memcpy(&result, &a, sizeof a);
    return result;
}

/* All bits set where a < b; NaN compares false. */
INLINE MASK NAME(less)(VEC a, VEC b)
{
#if LANES == 1
    return -(MASK)(a < b);
#else
    return (MASK)(a < b);
#endif
}

INLINE VEC NAME(select)(MASK where, VEC a, VEC b)
{
    return NAME(from_bits)((NAME(bits)(a) & where) | (NAME(bits)(b) & ~where));
}

/* The larger and the smaller one; b where one of them is NaN. */
INLINE VEC NAME(larger)(VEC a, VEC b) { return NAME(select)(NAME(less)(b, a), a, b); }
INLINE VEC NAME(smaller)(VEC a, VEC b) { return NAME(select)(NAME(less)(a, b), a, b); }

/* NaN stays NaN in both. */
INLINE VEC NAME(at_least)(VEC a, REAL low) { return NAME(larger)(NAME(all)(low), a); }
INLINE VEC NAME(at_most)(VEC a, REAL high) { return NAME(smaller)(NAME(all)(high), a); }

/* -|a| */
INLINE VEC NAME(minus_magnitude)(VEC a)
{
    const MASK zero = {0};
    return NAME(from_bits)(NAME(bits)(a) | (zero + ((BITS)1 << (8 * sizeof(BITS) - 1))));
}

INLINE VEC NAME(load)(const REAL *from, int64_t count)
{
    VEC result = {0};
    if (count >= LANES)
        memcpy(&result, from, sizeof result);
    else
        memcpy(&result, from, (size_t)count * sizeof(REAL));
    return result;
}

INLINE void NAME(store)(REAL *to, VEC value, int64_t count)
{
    if (count >= LANES)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &value, (size_t)count * sizeof(REAL));
}

INLINE REAL NAME(sum)(VEC value)
{
    REAL parts[LANES];
    memcpy(parts, &value, sizeof value);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            parts[i] += parts[i + width];
    return parts[0];
}

/* 2^f - 1 = f Q(f) for |f| <= 1/2, of full relative accuracy: Q is a minimax fit of relative error 2e-9 in float32, the
 * Taylor series in float64 (4e-18). */
INLINE VEC NAME(exp2_less_one)(VEC f)
{
    VEC q;
    if (IS_FLOAT) {
        q = NAME(all)(K(1.5353362e-4));
        q = q * f + K(1.3398875e-3);
        q = q * f + K(9.6184369e-3);
        q = q * f + K(5.5503324e-2);
        q = q * f + K(2.4022648e-1);
        q = q * f + K(6.9314718e-1);
    } else {
        q = NAME(all)(K(1.3691488853904124e-12));
        q = q * f + K(2.5678435993488196e-11);
        q = q * f + K(4.44553827187081e-10);
        q = q * f + K(7.054911620801121e-9);
        q = q * f + K(1.0178086009239696e-7);
        q = q * f + K(1.3215486790144305e-6);
        q = q * f + K(1.5252733804059838e-5);
        q = q * f + K(1.5403530393381606e-4);
        q = q * f + K(1.3333558146428441e-3);
        q = q * f + K(9.618129107628477e-3);
        q = q * f + K(5.5504108664821576e-2);
        q = q * f + K(2.402265069591007e-1);
        q = q * f + K(6.931471805599453e-1);
    }
    return q * f;
}

/* The integer nearest to x, and 2 to that power, 0 below the normal numbers; -BIAS <= x < BIAS + 1/2. For x outside, the
 * integer is right and the power is not.
 *
 * Adding a number so large that its last bit counts ones leaves the integer plus the exponent's bias in the low bits;
 * shifted into the exponent they are the power. */
#define BIAS (IS_FLOAT ? K(127) : K(1023))
INLINE VEC NAME(nearest)(VEC x, VEC *power)
{
    const REAL big = BIAS + (IS_FLOAT ? K(12582912) : K(6755399441055744));
    const VEC shifted = x + big;
    *power = NAME(from_bits)(NAME(bits)(shifted) << (IS_FLOAT ? 23 : 52));
    return shifted - big;
}

/* exp(x) for x < BIAS log 2. The rest of the division by log 2 is taken in two parts, or |x| would multiply its
 * rounding. */
INLINE VEC NAME(exp)(VEC x)
{
    const REAL high = IS_FLOAT ? K(0.693145751953125) : K(0.693147180369123816490);
    const REAL low = IS_FLOAT ? K(1.4286068203094172e-6) : K(1.90821492927058770002e-10);
    VEC power;
    x = NAME(at_least)(x, -BIAS * K(0.6931471805599453));
    const VEC k = NAME(nearest)(x * K(1.4426950408889634), &power);
    const VEC rest = NAME(exp2_less_one)(((x - k * high) - k * low) * K(1.4426950408889634));
    return power * rest + power;
}

INLINE VEC NAME(sigmoid)(VEC x)
{
    const VEC zero = {0};
    const VEC t = NAME(exp)(NAME(minus_magnitude)(x));
    return NAME(select)(NAME(less)(x, zero), t, zero + K(1)) / (t + K(1));
}

/* log(1 + exp(x)) = max(x, 0) + log1p(t), t = exp(-|x|), and log1p(t) = 2 artanh(s) with s = t/(2 + t) <= 1/3. */
INLINE VEC NAME(softplus)(VEC x)
{
    const VEC t = NAME(exp)(NAME(minus_magnitude)(x));
    const VEC s = t / (K(2) + t), square = s * s;
    const int last = IS_FLOAT ? 7 : 16;
    VEC series = NAME(all)(K(1) / K(2 * last + 1));
    for (int k = last - 1; k > 0; k--)
        series = series * square + K(1) / K(2 * k + 1);
    return NAME(at_least)(x, K(0)) + K(2) * (s * square * series + s);
}
