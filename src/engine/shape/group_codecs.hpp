// engine/shape/group_codecs.hpp: what making groups and reading them have in common, for each kind
// of CPU: a file that Highway compiles repeatedly includes this each time.
#if defined(GANTRY_SHAPE_GROUP_CODECS) == defined(HWY_TARGET_TOGGLE)
#ifdef GANTRY_SHAPE_GROUP_CODECS
#undef GANTRY_SHAPE_GROUP_CODECS
#else
#define GANTRY_SHAPE_GROUP_CODECS
#endif

#include "engine/shape/row_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

constexpr std::size_t kAtOnce = 32;  // groups whose scales are made in one go; a multiple of kLanes

/// How numbers of a group's elements are made and read. With a zero point their codes
/// are those from kLeast to kMost.
template <class CodecOf, bool kFloatOf, int kLeastOf, int kMostOf, int kExponentOf,
          unsigned kBitsOf>
struct Numbers {
  using Codec = CodecOf;
  static constexpr bool kFloat = kFloatOf;
  static constexpr bool kSigned = kLeastOf < 0;
  static constexpr bool kSaturates = kFloatOf && kMostOf < 1000;  // the element by itself
  static constexpr int kLeast = kLeastOf;
  static constexpr int kMost = kMostOf;
  static constexpr int kExponent = kExponentOf;  // of the largest
  static constexpr unsigned kBits = kBitsOf;
};
using GroupI8 = Numbers<I8, false, -128, 127, 0, 8>;
using GroupU8 = Numbers<U8, false, 0, 255, 0, 8>;
using GroupI4 = Numbers<I4, false, -8, 7, 0, 4>;
using GroupU4 = Numbers<U4, false, 0, 15, 0, 4>;
using GroupE4m3fn = Numbers<E4m3fn, true, -448, 448, 8, 8>;
using GroupE5m2 = Numbers<E5m2, true, -57344, 57344, 15, 8>;
using GroupE2m1 = Numbers<E2m1, true, -6, 6, 2, 4>;

HWY_INLINE Float all_of(float value) {
  return hn::Set(Floats(), value);
}

/// The power of two that an e8m0 stands for: 2^-127 is none of the normal floats.
HWY_INLINE Float of_e8m0(Word code) {
  return float_of(choose(greater(set(1), code), set(0x400000), hn::ShiftLeft<23>(code)));
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
