// reshape/row_codecs.hpp: vectors of floats from elements and back, for each kind of CPU: a
// file that Highway compiles repeatedly includes this each time.
#if defined(GANTRY_SHAPE_ROW_CODECS) == defined(HWY_TARGET_TOGGLE)
#ifdef GANTRY_SHAPE_ROW_CODECS
#undef GANTRY_SHAPE_ROW_CODECS
#else
#define GANTRY_SHAPE_ROW_CODECS
#endif

#include <algorithm>
#include <bit>

#include "shape/reshape/rows.hpp"  // <hwy/highway.h> is what the including file has included

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Float = hn::Vec<Floats>;
using Int = hn::Vec<Ints>;
using Word = hn::Vec<Words>;
template <class T>
using Narrow = hn::Rebind<T, Floats>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());

constexpr std::uint32_t kSignBit = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kQuietNan = 0x7fc00000u;

template <class T>
HWY_INLINE auto load(const std::byte* at) {
  return hn::LoadU(Narrow<T>(), reinterpret_cast<const T*>(at));
}
/// `streaming`: past the cache, if the vector is one that this CPU can store so.
template <class T, bool kStreaming, class Vector>
HWY_INLINE void store(Vector vector, std::byte* at) {
  if constexpr (kStreaming && kLanes * sizeof(T) >= 16)
    hn::Stream(vector, Narrow<T>(), reinterpret_cast<T*>(at));
  else
    hn::StoreU(vector, Narrow<T>(), reinterpret_cast<T*>(at));
}
HWY_INLINE Word set(std::uint32_t value) {
  return hn::Set(Words(), value);
}
HWY_INLINE Word bits_of(Float value) {
  return hn::BitCast(Words(), value);
}
HWY_INLINE Float float_of(Word bits) {
  return hn::BitCast(Floats(), bits);
}
HWY_INLINE Int int_of(Word bits) {
  return hn::BitCast(Ints(), bits);
}
// Of words below 2^31, whose signed comparison every CPU has.
HWY_INLINE auto greater(Word left, Word right) {
  return hn::Gt(int_of(left), int_of(right));
}
HWY_INLINE Word choose(hn::Mask<Ints> condition, Word yes, Word no) {
  return hn::BitCast(Words(), hn::IfThenElse(condition, int_of(yes), int_of(no)));
}
HWY_INLINE Word lesser(Word left, Word right) {
  return hn::BitCast(Words(), hn::Min(int_of(left), int_of(right)));
}

// ---- codes of small floats, in the low bits of words --------------------------------------------

template <int kBytesOf, int kFractionBits, int kExponentBias, std::uint32_t kLargestCode,
          std::uint32_t kBeyondCode, std::uint32_t kNanCode, std::uint32_t kPayloadMask>
struct SmallFloat {
  static constexpr int kFraction = kFractionBits;
  static constexpr int kShift = 23 - kFraction;
  static constexpr int kBias = kExponentBias;
  static constexpr std::uint32_t kLargest = kLargestCode;
  static constexpr std::uint32_t kBeyond = kBeyondCode;  // what the largest is followed by
  static constexpr std::uint32_t kNan = kNanCode;        // quiet; 0: there is none
  static constexpr std::uint32_t kPayload = kPayloadMask;
  static constexpr std::uint32_t kSign = kBytesOf == 0 ? 8 : kBytesOf == 1 ? 0x80 : 0x8000;
  static constexpr int kSignShift = kBytesOf == 0 ? 28 : kBytesOf == 1 ? 24 : 16;
};
using F16Format = SmallFloat<2, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0x1ff>;
using E5m2Format = SmallFloat<1, 2, 15, 0x7b, 0x7c, 0x7e, 1>;
using E4m3fnFormat = SmallFloat<1, 3, 7, 0x7e, 0x7e, 0x7f, 0>;
using E2m1Format = SmallFloat<0, 1, 1, 7, 7, 0, 0>;

constexpr float power_of_two(int exponent) {
  float power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

template <class Format>
HWY_INLINE Float decode(Word code) {
  const Word rest = hn::And(code, set(Format::kSign - 1));
  const Word sign = hn::ShiftLeft<Format::kSignShift>(hn::And(code, set(Format::kSign)));
  const Word normal = hn::Add(hn::ShiftLeft<Format::kShift>(rest),
                              set(static_cast<std::uint32_t>(127 - Format::kBias) << 23));
  const Float least = hn::Set(Floats(), power_of_two(1 - Format::kBias - Format::kFraction));
  const Float below = hn::Mul(hn::ConvertTo(Floats(), int_of(rest)), least);
  Word bits = choose(greater(set(1u << Format::kFraction), rest), bits_of(below), normal);
  if constexpr (Format::kBeyond != Format::kLargest) {
    const Word infinite = choose(greater(rest, set(Format::kLargest)), set(kInfinity), set(0));
    const Word quiet = choose(greater(rest, set(Format::kBeyond)), set(kQuietNan), set(0));
    bits = hn::Or(hn::Or(bits, infinite), quiet);
  } else if constexpr (Format::kNan != 0) {
    bits = choose(greater(rest, set(Format::kLargest)), set(kQuietNan), bits);
  }
  return float_of(hn::Or(bits, sign));
}

template <class Format>
HWY_INLINE Word encode(Float value) {
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - Format::kBias) << 23;
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - Format::kBias) << 23;
  const Word bits = bits_of(value);
  const Word rest = hn::And(bits, set(kSignBit - 1));
  const Word sign = hn::ShiftRight<Format::kSignShift>(hn::And(bits, set(kSignBit)));
  // To nearest even: half of the last digit, less a bit if that digit is even.
  const Word digit = hn::And(hn::ShiftRight<Format::kShift>(rest), set(1));
  const Word half = set((1u << (Format::kShift - 1)) - 1 - kRebias);
  const Word normal = hn::ShiftRight<Format::kShift>(hn::Add(rest, hn::Add(digit, half)));
  // Below the normal numbers: the sum's last digit is that of the small float.
  const Word magic =
      set(static_cast<std::uint32_t>(127 + 1 - Format::kBias - Format::kFraction + 23) << 23);
  const Word below = hn::Sub(bits_of(hn::Add(float_of(rest), float_of(magic))), magic);
  Word code = choose(greater(set(kLeastNormal), rest), below, normal);
  code = lesser(code, set(Format::kBeyond));
  const auto is_nan = greater(rest, set(kInfinity));
  if constexpr (Format::kNan == 0) return choose(is_nan, set(0), hn::Or(code, sign));
  Word nan = set(Format::kNan);
  if constexpr (Format::kPayload != 0)
    nan = hn::Or(nan, hn::And(hn::ShiftRight<Format::kShift>(rest), set(Format::kPayload)));
  return hn::Or(choose(is_nan, nan, code), sign);
}

/// To nearest even; NaN becomes 0. The bounds are within 2^22.
HWY_INLINE Int whole(Float value, Float least, Float largest) {
  const Float number = hn::IfThenElseZero(hn::Eq(value, value), value);
  const Float bounded = hn::Min(hn::Max(number, least), largest);
  const Float magic = hn::Set(Floats(), 0x1.8p23f);  // the sum's last digit is 1
  return hn::Sub(hn::BitCast(Ints(), hn::Add(bounded, magic)), hn::BitCast(Ints(), magic));
}
HWY_INLINE Int whole(Float value, float least, float largest) {
  return whole(value, hn::Set(Floats(), least), hn::Set(Floats(), largest));
}

/// The same within the bounds of 32 bits.
HWY_INLINE Int whole_of_any(Float value) {
  const Float number = hn::IfThenElseZero(hn::Eq(value, value), value);
#if HWY_TARGET == HWY_SCALAR  // Highway's rounds 0.49999997 to 1
  const double bounded = std::min(std::max(double{number.raw}, -0x1p31), 0x1p31 - 1);
  return Int(static_cast<std::int32_t>(std::bit_cast<std::uint64_t>(bounded + 0x1.8p52)));
#else
  return hn::NearestInt(number);
#endif
}

// ---- elements in memory -------------------------------------------------------------------------
// get() makes floats of kLanes elements. code() makes words whose lower bits, or upper half, are
// the elements; where put() is, it stores elements instead.

template <class T, int kLeast, int kMost>
struct Whole {
  using Type = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static constexpr bool kUpper = false;
  static HWY_INLINE Float get(const std::byte* at) {
    return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), load<T>(at)));
  }
  static HWY_INLINE Word code(Float value) {
    return hn::BitCast(Words(), whole(value, kLeast, kMost));
  }
};
using U8 = Whole<std::uint8_t, 0, 255>;
using I8 = Whole<std::int8_t, -128, 127>;
using U4 = Whole<std::uint8_t, 0, 15>;
using I4 = Whole<std::int8_t, -8, 7>;
using U16 = Whole<std::uint16_t, 0, 65535>;
using I16 = Whole<std::int16_t, -32768, 32767>;

struct I32 {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE Float get(const std::byte* at) {
    return hn::ConvertTo(Floats(), load<std::int32_t>(at));
  }
  template <bool kStreaming = false>
  static HWY_INLINE void put(Float value, std::byte* at) {
    store<std::int32_t, kStreaming>(whole_of_any(value), at);
  }
};
struct F32 {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE Float get(const std::byte* at) { return load<float>(at); }
  template <bool kStreaming = false>
  static HWY_INLINE void put(Float value, std::byte* at) {
    store<float, kStreaming>(value, at);
  }
};

struct Bf16 {
  using Type = std::uint16_t;
  static constexpr std::size_t kBytes = 2;
  static constexpr bool kUpper = true;
  static HWY_INLINE Float get(const std::byte* at) {
    return float_of(hn::ShiftLeft<16>(hn::PromoteTo(Words(), load<std::uint16_t>(at))));
  }
  static HWY_INLINE Word code(Float value) {
    const Word bits = bits_of(value);
    const Word digit = hn::And(hn::ShiftRight<16>(bits), set(1));
    const Word rounded = hn::Add(bits, hn::Add(digit, set(0x7fff)));
    const Word quiet = hn::Or(bits, set(0x400000));
    return bits_of(hn::IfThenElse(hn::Eq(value, value), float_of(rounded), float_of(quiet)));
  }
};
/// For floats that are bf16 as they are.
struct ExactBf16 : Bf16 {
  static HWY_INLINE Word code(Float value) { return bits_of(value); }
};

#if HWY_TARGET != HWY_SCALAR
using Pairs = hn::Repartition<std::uint16_t, Floats>;
using Quads = hn::Repartition<std::uint8_t, Floats>;

template <bool kUpper>
HWY_INLINE hn::Vec<Pairs> pair_of(Word first, Word second) {
  const auto low = hn::BitCast(Pairs(), first), high = hn::BitCast(Pairs(), second);
  if constexpr (kUpper)
    return hn::ConcatOdd(Pairs(), high, low);
  else
    return hn::ConcatEven(Pairs(), high, low);
}
HWY_INLINE hn::Vec<Quads> quad_of(hn::Vec<Pairs> first, hn::Vec<Pairs> second) {
  return hn::ConcatEven(Quads(), hn::BitCast(Quads(), second), hn::BitCast(Quads(), first));
}
template <bool kStreaming, class Vectors>
HWY_INLINE void store_whole(hn::Vec<Vectors> vector, Vectors vectors, std::byte* at) {
  auto* to = reinterpret_cast<hn::TFromD<Vectors>*>(at);
  if constexpr (kStreaming)
    hn::Stream(vector, vectors, to);
  else
    hn::StoreU(vector, vectors, to);
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // F16C: its bits are those of encode() and decode()
struct F16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE Float get(const std::byte* at) {
    return hn::PromoteTo(Floats(), load<hwy::float16_t>(at));
  }
  template <bool kStreaming = false>
  static HWY_INLINE void put(Float value, std::byte* at) {
    const auto halves = hn::DemoteTo(Narrow<hwy::float16_t>(), value);
    store<std::uint16_t, kStreaming>(hn::BitCast(Narrow<std::uint16_t>(), halves), at);
  }
  /// As one vector: halves of a line by themselves cost more where lines go to memory.
  template <bool kStreaming>
  static HWY_INLINE void put_two(Float a, Float b, std::byte* at) {
    const Narrow<hwy::float16_t> halves;
    const Narrow<std::uint16_t> words;
    const auto low = hn::BitCast(words, hn::DemoteTo(halves, a));
    const auto high = hn::BitCast(words, hn::DemoteTo(halves, b));
    store_whole<kStreaming>(hn::Combine(Pairs(), high, low), Pairs(), at);
  }
};
#else
struct F16 {
  using Type = std::uint16_t;
  static constexpr std::size_t kBytes = 2;
  static constexpr bool kUpper = false;
  static HWY_INLINE Float get(const std::byte* at) {
    return decode<F16Format>(hn::PromoteTo(Words(), load<std::uint16_t>(at)));
  }
  static HWY_INLINE Word code(Float value) { return encode<F16Format>(value); }
};
#endif
template <class Format>
struct ByteFloat {
  using Type = std::uint8_t;
  static constexpr std::size_t kBytes = 1;
  static constexpr bool kUpper = false;
  static HWY_INLINE Float get(const std::byte* at) {
    return decode<Format>(hn::PromoteTo(Words(), load<std::uint8_t>(at)));
  }
  static HWY_INLINE Word code(Float value) { return encode<Format>(value); }
};
using E5m2 = ByteFloat<E5m2Format>;
using E4m3fn = ByteFloat<E4m3fnFormat>;
using E2m1 = ByteFloat<E2m1Format>;

template <class To>
concept HasCodes = requires { typename To::Type; };
template <class To>
concept PutsTwo = requires { &To::template put_two<false>; };

// ---- stores of one vector of floats, and of four ------------------------------------------------

template <class To, bool kStreaming>
HWY_INLINE void put_vector(Float value, std::byte* at) {
  if constexpr (!HasCodes<To>) {
    To::template put<kStreaming>(value, at);
  } else if constexpr (To::kBytes == 1) {
    const Word code = hn::And(To::code(value), set(0xff));
    store<std::uint8_t, kStreaming>(hn::U8FromU32(code), at);
  } else {
    const Word code = To::code(value);
    store<std::uint16_t, kStreaming>(
        hn::TruncateTo(Narrow<std::uint16_t>(), To::kUpper ? hn::ShiftRight<16>(code) : code), at);
  }
}

#if HWY_TARGET != HWY_SCALAR
template <class To, bool kStreaming>
HWY_INLINE void put_codes(Float a, Float b, Float c, Float d, std::byte* at) {
  const auto first = pair_of<To::kUpper>(To::code(a), To::code(b));
  const auto second = pair_of<To::kUpper>(To::code(c), To::code(d));
  if constexpr (To::kBytes == 1) {
    store_whole<kStreaming>(quad_of(first, second), Quads(), at);
  } else {
    store_whole<kStreaming>(first, Pairs(), at);
    store_whole<kStreaming>(second, Pairs(), at + 2 * kLanes * To::kBytes);
  }
}
#endif

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
