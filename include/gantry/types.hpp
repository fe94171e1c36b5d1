#pragma once  // gantry/types.hpp: common types: errors, bytes, deadlines, tensors.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

// Marks the symbols that a program links to if it uses Gantry. Other symbols are not for programs.
#define GANTRY_API [[gnu::visibility("default")]]      ///< Exported from the library.
#define GANTRY_LOCAL [[gnu::visibility("protected")]]  ///< Part of a public class, not for users.

// Clang's -Wconsumed tracks handles whose state changes and rejects uses of a handle that was given
// away; other compilers ignore these macros. tests/compile/ holds the code that must not compile.
#if defined(__clang__)
#define GANTRY_CONSUMABLE(state) [[clang::consumable(state)]]
#define GANTRY_RETURNS(state) [[clang::return_typestate(state)]]
#define GANTRY_ONLY_WHEN(state) [[clang::callable_when(#state)]]
#define GANTRY_MAKES(state) [[clang::set_typestate(state)]]
#define GANTRY_TAKES(state) [[clang::param_typestate(state)]]
#else
#define GANTRY_CONSUMABLE(state)  ///< On a class: its handles have states; `state` is the default.
#define GANTRY_RETURNS(state)     ///< On a function: the state of the returned handle.
#define GANTRY_ONLY_WHEN(state)   ///< On a member function: the state in which it may be called.
#define GANTRY_MAKES(state)       ///< On a member function: the state after the call.
#define GANTRY_TAKES(state)       ///< On a parameter: the state that the argument must have.
#endif

namespace gantry {

/// The kind of an error, for decisions in programs; the message is for people.
enum class Code {
  invalid_argument,   ///< The caller passed an argument that can never work.
  not_found,          ///< No such host, engine, device, tensor, file or other named object.
  already_exists,     ///< Another owner holds that name or role.
  permission_denied,  ///< The kernel or a safety rule refuses.
  out_of_memory,      ///< A budget or the machine is exhausted.
  too_large,          ///< Larger than this machine or this channel can ever hold.
  timed_out,          ///< The deadline passed first.
  busy,               ///< Full at present; the same call may work later.
  interrupted,        ///< Cancelled, or the caller's interrupt descriptor became readable.
  closed,             ///< Regular end of a stream, queue or link; an engine used in a forked child.
  peer_gone,          ///< The other process died or left without ending the stream.
  aborted,            ///< The sender gave up the message, or the server dropped the request.
  peer_misbehaved,    ///< The other process broke the protocol; the channel is given up.
  unsupported,        ///< Not available on this machine or in this build.
  system,             ///< Any other refusal of the operating system.
  device_full,        ///< The device's memory is exhausted; smaller or fewer buffers may work.
  device_lost,        ///< The device is gone or was given up: no call on it works any more.
  kernel_fault,       ///< A kernel began and failed.
  build_failed,       ///< A compiler refused a kernel's source; the message holds its log.
};

[[nodiscard]] GANTRY_API std::string_view to_string(Code code) noexcept;

/// An expected failure. `message` reads "what: why" and names the object and the value; `hint` says
/// how to correct it and may be empty.
struct Error {
  Code code = Code::system;  ///< For decisions in programs.
  std::string message;
  std::string hint;
};

/// Returns "message; hint", one line for people.
[[nodiscard]] GANTRY_API std::string to_string(const Error& error);

/// A value, or the error that prevented it.
template <class T>
using Result = tl::expected<T, Error>;

/// Prints "gantry: message; hint" to standard error and ends the process by std::exit(1).
[[noreturn]] GANTRY_API void exit_with(const Error& error) noexcept;

/// Returns the value, moved out of a temporary. If there is an error, ends the process by
/// exit_with(). For main() and for examples; a library returns the Result instead.
template <class T>
T must(Result<T>&& result) {
  if (!result) exit_with(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
/// Returns a reference to the value inside `result`. If there is an error, ends the process by
/// exit_with().
template <class T>
std::add_lvalue_reference_t<T> must(Result<T>& result) {
  if (!result) exit_with(result.error());
  if constexpr (!std::is_void_v<T>) return *result;
}

using Bytes = std::size_t;  ///< A count of bytes or rows. Names of other numbers end in the unit.
/// Memory that can be written.
using ByteSpan = std::span<std::byte>;
/// Memory that can only be read.
using ConstByteSpan = std::span<const std::byte>;

/// A point in monotonic time until which a call may wait. A plain value.
class GANTRY_API Deadline {
 public:
  /// The monotonic clock of all deadlines.
  using Clock = std::chrono::steady_clock;

  /// A deadline that never passes.
  [[nodiscard]] static constexpr Deadline never() noexcept {
    return Deadline(Clock::time_point::max());
  }
  /// A deadline that has passed: calls do not wait. Reads no clock.
  [[nodiscard]] static constexpr Deadline now() noexcept { return Deadline(Clock::time_point()); }
  /// A deadline `wait` from now. Saturates: a wait longer than the clock can count becomes
  /// `never()`.
  [[nodiscard]] static Deadline after(std::chrono::nanoseconds wait) noexcept;

  /// True for never().
  [[nodiscard]] constexpr bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  /// True when the deadline has passed; false for never().
  [[nodiscard]] bool passed() const noexcept { return !is_never() && Clock::now() >= at_; }
  /// Time left, never negative; `nanoseconds::max()` for `never()`.
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;

 private:
  explicit constexpr Deadline(Clock::time_point at) noexcept : at_(at) {}
  Clock::time_point at_;
};

// ---- element types, and layouts of elements in memory -------------------------------------------

/// Type of an element, laid out as DLPack's DLDataType (dlpack.h, version 1.1).
struct DataType {
  /// Kind of number; values as in DLPack.
  enum Code : std::uint8_t {
    signed_int = 0,    ///< Two's complement.
    unsigned_int = 1,  ///< Without a sign.
    floating = 2,      ///< IEEE 754.
    bfloat = 4,        ///< The upper half of an f32.
    e4m3fn = 10,       ///< 8 bits, no infinity (OCP OFP8).
    e5m2 = 12,         ///< 8 bits, as the upper half of an f16.
    e2m1fn = 17,       ///< 4 bits, neither infinity nor NaN (OCP MX).
    /// Not in DLPack: the first code of groups with a scale, see Groups.
    grouped = 128,
  };
  std::uint8_t code = unsigned_int;  ///< A Code; DLPack has more codes.
  std::uint8_t bits = 8;             ///< Bits of one number.
  std::uint16_t lanes = 1;  ///< Numbers in an element: 1 unless elements are vectors. For groups:
                            ///< the numbers of one group.
  friend bool operator==(const DataType&, const DataType&) = default;
};

/// Types that a ReshapePlan supports. Numbers of 4 bits are packed from the lowest bits up.
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
inline constexpr DataType e4m3fn{DataType::e4m3fn, 8, 1};      ///< -448 to 448.
inline constexpr DataType e5m2{DataType::e5m2, 8, 1};          ///< -57344 to 57344.
inline constexpr DataType u4{DataType::unsigned_int, 4, 1};    ///< 0 to 15.
inline constexpr DataType i4{DataType::signed_int, 4, 1};      ///< -8 to 7.
inline constexpr DataType e2m1{DataType::e2m1fn, 4, 1};        ///< -6 to 6.
}  // namespace types

/// Numbers that share a scale: x = scale * (q - zero_point). In memory a group is its scale, then
/// its zero point if it has one (one byte, signed as q is), then its numbers, without gaps. Groups
/// run along the last dimension.
struct GANTRY_API Groups {
  /// Type of the scale; e8m0 is a power of two in one byte (OCP MX).
  enum class Scale : std::uint8_t { f32, f16, bf16, e8m0 };
  DataType element = types::i8;  ///< i8, u8, i4, u4, e4m3fn, e5m2 or e2m1.
  std::uint16_t size = 32;       ///< Numbers in a group: 32, 64 or 128.
  Scale scale = Scale::f16;      ///< Stored before the numbers.
  bool zero_point = false;       ///< Whether a zero point is stored; for integers only.
  friend bool operator==(const Groups&, const Groups&) = default;

  /// The type of a tensor of such groups. Values out of range give a type that no reshape accepts.
  [[nodiscard]] DataType type() const noexcept;
};
/// The groups that a type stands for. Empty if the type has no groups, or unknown ones.
[[nodiscard]] GANTRY_API std::optional<Groups> groups_of(DataType type) noexcept;

/// Text as in a pipeline file: "bf16", "i8[32]", "u4[64,f32,zero]", "e4m3fn[32,e8m0]" (scales are
/// f16 by default). For a type that reshapes do not support: "DLPack type CODE of BITS bits".
[[nodiscard]] GANTRY_API std::string to_string(DataType type);
/// Reads text as in a pipeline file. Errors: `invalid_argument`, with the list of types.
[[nodiscard]] GANTRY_API Result<DataType> parse_type(std::string_view text);

/// How to interpret a segment: type, shape and strides as in DLPack.
struct GANTRY_API Tensor {
  static constexpr unsigned kMaxDimensions = 8;  ///< Upper limit of `dimensions`.
  DataType type;                                 ///< Type of each element.
  unsigned dimensions = 0;  ///< Number of used entries in `shape` and `strides`; 0: one element.
  /// Elements along each dimension; for groups: numbers, not groups.
  std::array<std::int64_t, kMaxDimensions> shape{};
  std::array<std::int64_t, kMaxDimensions> strides{};  ///< Distances in elements, not bytes.

  /// A row-major tensor without gaps. Dimensions beyond kMaxDimensions are dropped.
  [[nodiscard]] static Tensor dense(DataType type, std::span<const std::int64_t> shape) noexcept;
  /// True if every element lies within `bytes`, without overflow, and no stride is negative.
  [[nodiscard]] bool fits(Bytes bytes) const noexcept;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// ---- conversions: gantry/shape.hpp makes them ---------------------------------------------------

namespace detail {
struct ReshapeState;
}
struct Planes;          // in <gantry/shape.hpp>
struct ReshapeOptions;  // in <gantry/shape.hpp>

/// The byte range [from, from + bytes).
struct ByteRange {
  Bytes from = 0;                                                    ///< First byte.
  Bytes bytes = 0;                                                   ///< Number of bytes.
  [[nodiscard]] Bytes end() const noexcept { return from + bytes; }  ///< One past the last byte.
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Largest difference between a converted value and the exact result, unless the exact result is
/// outside the range of the destination's type.
struct GANTRY_API ReshapeError {
  /// Unit of `amount`.
  enum class Kind : std::uint8_t {
    exact,  ///< The destination's type holds every value of the source's type.
    ulps,   ///< Distance between neighbouring numbers of the destination's type at the result.
    steps,  ///< The scale of the group.
    /// For groups of floating-point elements: ulps of the element, times the scale of the group;
    /// values beyond the largest element become the largest element.
    binades
  } kind = Kind::exact;    ///< Unit of `amount`.
  double amount = 0;       ///< Number of units; 0 if exact.
  bool saturates = false;  ///< The source's type has values beyond the destination's range.
  friend bool operator==(const ReshapeError&, const ReshapeError&) = default;
  /// Text for people: "exact", "0.5 ulp of bf16; saturates".
  [[nodiscard]] std::string text() const;
};

/// Cost class of a reshape; each engine's costs are measured for each class (EngineCosts).
enum class ReshapeClass : std::uint8_t {
  narrowing,  ///< Keeps the order; gives at most as many bytes as the source has.
  widening,   ///< Keeps the order; gives more bytes than the source has.
  permuting   ///< Changes the order of the elements.
};
/// Number of cost classes.
inline constexpr std::size_t kReshapeClasses = 3;
[[nodiscard]] GANTRY_API std::string_view to_string(ReshapeClass kind) noexcept;

/// A reshape plan: a checked conversion of one tensor into another. A plain value; copies share its
/// state. Usable for any number of moves in any threads. A moved-from plan may only be assigned to
/// or destroyed. Rounding: to nearest, ties to even. Integers, 4-bit types and e4m3fn saturate;
/// integers and 4-bit types turn NaN into 0. Other floats turn values beyond the largest into
/// infinity. A NaN stays a NaN in other types. Subnormal numbers are kept, whatever the thread's
/// floating-point mode. Every CPU gives the same bits.
class GANTRY_API ReshapePlan {
 public:
  /// Checks everything: a plan cannot fail later. `to` must not have gaps; `from` may. Errors:
  /// `invalid_argument`, with the dimension and both values.
  [[nodiscard]] static Result<ReshapePlan> make(const Tensor& to, const Tensor& from,
                                                const ReshapeOptions& options);
  /// Without options: the same shape, with another type or other strides.
  [[nodiscard]] static Result<ReshapePlan> make(const Tensor& to, const Tensor& from);
  /// Conversion to another type, in the same shape.
  [[nodiscard]] static Result<ReshapePlan> make(DataType to, const Tensor& from);
  /// Conversion of a tensor without gaps to planes; the result is a row of bytes. Exact. Errors: as
  /// make(); `invalid_argument` for groups, numbers of 4 bits, or a block that 8 does not divide.
  [[nodiscard]] static Result<ReshapePlan> to_planes(const Tensor& from, const Planes& planes);
  /// Conversion of planes back to a tensor. Ignores bounds.
  [[nodiscard]] static Result<ReshapePlan> from_planes(const Tensor& to, const Planes& planes);

  /// The tensor that is read.
  [[nodiscard]] const Tensor& source() const noexcept;
  [[nodiscard]] const Tensor& destination() const noexcept;  ///< The tensor that is made.
  /// Bytes from the start of the first element to the end of the last, including gaps.
  [[nodiscard]] Bytes source_bytes() const noexcept;
  [[nodiscard]] Bytes destination_bytes() const noexcept;  ///< Bytes of the result.

  /// Best granularity, in bytes, for cutting the destination; a cut elsewhere computes one element
  /// or group twice.
  [[nodiscard]] Bytes unit() const noexcept;
  /// A range of the source that is sufficient to make this range of the destination.
  [[nodiscard]] ByteRange source_of(ByteRange destination) const noexcept;
  /// Number of bytes of the destination, from its front, that the first `source_prefix` bytes of
  /// the source determine.
  [[nodiscard]] Bytes destination_from(Bytes source_prefix) const noexcept;
  /// Largest error of a value.
  [[nodiscard]] const ReshapeError& error() const noexcept;
  [[nodiscard]] ReshapeClass kind() const noexcept;  ///< Cost class.
  /// Text for people: "f32 [256, 3, 224, 224] to bf16 [...], 0.5 ulp".
  [[nodiscard]] std::string text() const;

  /// Makes bytes [from, from + to.size()) of the destination in the calling thread. `source` holds
  /// the source from byte `source_from` on. Does not catch faults. Returns false and makes nothing
  /// if the destination does not have these bytes, or `source` does not cover their source_of().
  bool convert(ByteSpan to, ConstByteSpan source, Bytes from = 0,
               Bytes source_from = 0) const noexcept;

  friend bool operator==(const ReshapePlan& one, const ReshapePlan& other) noexcept {
    return one.state_ == other.state_;  // true for copies of one plan only, not for equal plans
  }

  // For engines:
  explicit ReshapePlan(std::shared_ptr<const detail::ReshapeState> state) noexcept
      : state_(std::move(state)) {}
  /// For engines.
  [[nodiscard]] const detail::ReshapeState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<const detail::ReshapeState> state_;
};

/// Conversion of a message's elements during the send.
struct GANTRY_API As {
  As(DataType type) noexcept;    // NOLINT: .as(types::bf16)
  As(ReshapePlan all) noexcept;  // NOLINT: .as(plan)

  DataType to;                      ///< Type that the reader gets.
  std::optional<DataType> from;     ///< Type of bytes that are sent without a tensor.
  bool exact = false;               ///< Refuses a conversion that loses information.
  std::optional<ReshapePlan> plan;  ///< If set, replaces `to`; its source is the sent tensor.

  /// The plan for a payload of `bytes`, with its tensor if it has one. Errors: `invalid_argument`
  /// for bytes without a tensor and without `from`, and for a tensor whose type or shape differs
  /// from `plan` or `from`; those of ReshapePlan::make().
  [[nodiscard]] Result<ReshapePlan> plan_for(const std::optional<Tensor>& tensor,
                                             Bytes bytes) const {
    return maker_(*this, tensor, bytes);
  }
  /// Reads "bf16", or "f32 -> bf16". Errors: `invalid_argument`.
  [[nodiscard]] static Result<As> parse(std::string_view text);
  /// Text that parse() reads; for a plan, the plan's text.
  [[nodiscard]] std::string text() const;

 private:
  // A program that uses As must link the component shape, the only maker of plans.
  Result<ReshapePlan> (*maker_)(const As&, const std::optional<Tensor>&, Bytes);
};

}  // namespace gantry
