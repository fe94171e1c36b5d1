#pragma once  // gantry/shape/tensor.hpp: types of elements, and how elements lie in memory.

#include <array>
#include <gantry/types.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gantry {

/// An element's type, laid out as DLPack's DLDataType (dlpack.h, version 1.1).
struct DataType {
  /// The kind of number, with the value that it has in DLPack.
  enum Code : std::uint8_t {
    signed_int = 0,    ///< Two's complement.
    unsigned_int = 1,  ///< Without a sign.
    floating = 2,      ///< IEEE 754.
    bfloat = 4,        ///< The upper half of an f32.
    e4m3fn = 10,       ///< 8 bits, no infinity (OCP OFP8).
    e5m2 = 12,         ///< 8 bits, as the upper half of an f16.
    e2m1fn = 17,       ///< 4 bits, neither infinity nor NaN (OCP MX).
    grouped = 128,     ///< Not of DLPack: from here on groups with a scale, see Groups.
  };
  std::uint8_t code = unsigned_int;  ///< A Code; DLPack has more of them.
  std::uint8_t bits = 8;             ///< Of one number.
  std::uint16_t lanes = 1;           ///< Numbers in an element: 1 unless elements are vectors.
                                     ///< Of groups: the numbers of one group.
  friend bool operator==(const DataType&, const DataType&) = default;
};

/// The types that a reshape knows. Numbers of 4 bits are packed from the lowest bits up.
namespace types {
inline constexpr DataType u8{DataType::unsigned_int, 8, 1};    ///< 0 to 255.
inline constexpr DataType i8{DataType::signed_int, 8, 1};      ///< -128 to 127.
inline constexpr DataType u16{DataType::unsigned_int, 16, 1};  ///< 0 to 65535.
inline constexpr DataType i16{DataType::signed_int, 16, 1};    ///< -32768 to 32767.
inline constexpr DataType i32{DataType::signed_int, 32, 1};    ///< As int32_t.
inline constexpr DataType f16{DataType::floating, 16, 1};      ///< IEEE 754 binary16.
inline constexpr DataType bf16{DataType::bfloat, 16, 1};       ///< The upper half of an f32.
inline constexpr DataType f32{DataType::floating, 32, 1};      ///< IEEE 754 binary32.
inline constexpr DataType f64{DataType::floating, 64, 1};      ///< IEEE 754 binary64.
inline constexpr DataType e4m3fn{DataType::e4m3fn, 8, 1};      ///< To +-448.
inline constexpr DataType e5m2{DataType::e5m2, 8, 1};          ///< To +-57344.
inline constexpr DataType u4{DataType::unsigned_int, 4, 1};    ///< 0 to 15.
inline constexpr DataType i4{DataType::signed_int, 4, 1};      ///< -8 to 7.
inline constexpr DataType e2m1{DataType::e2m1fn, 4, 1};        ///< To +-6.
}  // namespace types

/// Numbers that share a scale: x = scale * (q - zero_point). In memory a group is its scale, then
/// its zero point if it has one (one byte of q's signedness), then its numbers, without gaps.
/// Groups run along the last dimension.
struct GANTRY_API Groups {
  /// The scale's type; e8m0 is a power of two in one byte (OCP MX).
  enum class Scale : std::uint8_t { f32, f16, bf16, e8m0 };
  DataType element = types::i8;  ///< i8, u8, i4, u4, e4m3fn, e5m2 or e2m1.
  std::uint16_t size = 32;       ///< Numbers in a group: 32, 64 or 128.
  Scale scale = Scale::f16;      ///< Stored before the numbers.
  bool zero_point = false;       ///< Only of whole numbers.
  friend bool operator==(const Groups&, const Groups&) = default;

  /// As the type of a tensor. Values out of range give a type that no reshape takes.
  [[nodiscard]] DataType type() const noexcept;
};
/// Nothing if the type has no groups, or none that this version knows.
[[nodiscard]] GANTRY_API std::optional<Groups> groups_of(DataType type) noexcept;

/// As a pipeline file has it: "bf16", "i8[32]", "u4[64,f32,zero]", "e4m3fn[32,e8m0]" (scales are
/// f16 unless said). A type that no reshape knows: "DLPack type CODE of BITS bits".
[[nodiscard]] GANTRY_API std::string to_string(DataType type);
/// Errors: `invalid_argument`, with the types that there are.
[[nodiscard]] GANTRY_API Result<DataType> parse_type(std::string_view text);

/// How to read a segment: type, shape and strides as in DLPack.
struct GANTRY_API Tensor {
  static constexpr unsigned kMaxDimensions = 8;  ///< The most that `dimensions` may be.
  DataType type;                                 ///< Of each element.
  unsigned dimensions = 0;  ///< Entries of the next two that count; 0: one element.
  std::array<std::int64_t, kMaxDimensions> shape{};    ///< Elements along each dimension. Of
                                                       ///< groups: numbers, not groups.
  std::array<std::int64_t, kMaxDimensions> strides{};  ///< In elements, not bytes.

  /// Row-major, without gaps. Shapes beyond kMaxDimensions are cut off.
  [[nodiscard]] static Tensor dense(DataType type, std::span<const std::int64_t> shape) noexcept;
  /// True if every element lies within `bytes`, without overflow, and no stride is negative.
  [[nodiscard]] bool fits(Bytes bytes) const noexcept;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

}  // namespace gantry
