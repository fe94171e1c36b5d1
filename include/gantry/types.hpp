#pragma once  // gantry/types.hpp: what every layer shares: errors, results, bytes, deadlines.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

// Marks what a program that uses Gantry links to. Everything else stays within the library.
#define GANTRY_API [[gnu::visibility("default")]]   ///< Exported from the library.
#define GANTRY_LOCAL [[gnu::visibility("hidden")]]  ///< Not exported from a public class.

// Clang's -Wconsumed follows handles whose state changes and refuses the use of one that was given
// away; other compilers ignore these macros. tests/compile/ holds what must not compile.
#if defined(__clang__)
#define GANTRY_CONSUMABLE(state) [[clang::consumable(state)]]
#define GANTRY_RETURNS(state) [[clang::return_typestate(state)]]
#define GANTRY_ONLY_WHEN(state) [[clang::callable_when(#state)]]
#define GANTRY_MAKES(state) [[clang::set_typestate(state)]]
#define GANTRY_TAKES(state) [[clang::param_typestate(state)]]
#else
#define GANTRY_CONSUMABLE(state)  ///< Of a class: its handles have states, by default this one.
#define GANTRY_RETURNS(state)     ///< Of a function: the state of the handle that it returns.
#define GANTRY_ONLY_WHEN(state)   ///< Of a member function: the state that it may be called in.
#define GANTRY_MAKES(state)       ///< Of a member function: the state that it leaves behind.
#define GANTRY_TAKES(state)       ///< Of a parameter: the state that it must be in.
#endif

namespace gantry {

/// The kind of an error, for programs to decide by; the message is for people.
enum class Code {
  invalid_argument,   ///< The caller handed in something that can never work.
  not_found,          ///< No such channel, file or program.
  already_exists,     ///< Somebody else holds that name or role.
  permission_denied,  ///< The kernel or a safety rule refuses.
  out_of_memory,      ///< A budget or the machine is exhausted.
  too_large,          ///< Larger than this machine or this channel can ever hold.
  timed_out,          ///< The deadline passed first.
  busy,               ///< Full at present; the same may work later.
  interrupted,        ///< The caller's interrupt descriptor became readable.
  closed,             ///< The producer ended the stream and everything has been received.
  peer_gone,          ///< The other process died or left without ending the stream.
  aborted,            ///< The sender gave up the message half-way.
  peer_misbehaved,    ///< The other process broke the protocol; the channel is given up.
  unsupported,        ///< This machine or this build does not have it.
  system,             ///< Any other refusal of the operating system.
  device_full,        ///< The device's memory is exhausted; smaller or fewer buffers may work.
  device_lost,        ///< The device is gone or was given up: nothing works on it any more.
  kernel_fault,       ///< A kernel began and failed.
  build_failed,       ///< A compiler refused a kernel's source; the message holds its log.
};

[[nodiscard]] GANTRY_API std::string_view to_string(Code code) noexcept;

/// An expected failure. `message` reads "what: why" and names the thing and the value; `hint` says
/// how to mend it and may be empty.
struct Error {
  Code code = Code::system;  ///< What programs decide by.
  std::string message;
  std::string hint;
};

/// Returns "message; hint", one line for people.
[[nodiscard]] GANTRY_API std::string to_string(const Error& error);

/// A value, or why there is none.
template <class T>
using Result = tl::expected<T, Error>;

/// Prints "gantry: message; hint" to standard error and ends the process by std::exit(1).
[[noreturn]] GANTRY_API void exit_with(const Error& error) noexcept;

/// Returns the value, moved out of a temporary or where it lies; ends the process by exit_with() if
/// there is an error instead. For main() and for examples: a library hands the Result on.
template <class T>
T must(Result<T>&& result) {
  if (!result) exit_with(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
/// The same where the value lies.
template <class T>
std::add_lvalue_reference_t<T> must(Result<T>& result) {
  if (!result) exit_with(result.error());
  if constexpr (!std::is_void_v<T>) return *result;
}

using Bytes = std::size_t;  ///< A count of bytes. Other raw numbers end in their unit.
/// Memory that is written.
using ByteSpan = std::span<std::byte>;
/// Memory that is only read.
using ConstByteSpan = std::span<const std::byte>;

/// A point in monotonic time until which a call may wait. A plain value.
class GANTRY_API Deadline {
 public:
  /// Monotonic.
  using Clock = std::chrono::steady_clock;

  /// Waits as long as it takes.
  [[nodiscard]] static constexpr Deadline never() noexcept {
    return Deadline(Clock::time_point::max());
  }
  /// Does not wait at all.
  [[nodiscard]] static Deadline now() noexcept { return Deadline(Clock::now()); }
  /// Saturates: a wait longer than the clock can count becomes `never()`.
  [[nodiscard]] static Deadline after(std::chrono::nanoseconds wait) noexcept;

  /// True of never().
  [[nodiscard]] constexpr bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  /// True when the time is over.
  [[nodiscard]] bool passed() const noexcept { return !is_never() && Clock::now() >= at_; }
  /// Time left, never negative; `nanoseconds::max()` for `never()`.
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;

 private:
  explicit constexpr Deadline(Clock::time_point at) noexcept : at_(at) {}
  Clock::time_point at_;
};

}  // namespace gantry
