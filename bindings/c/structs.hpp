#pragma once  // bindings/c/structs.hpp: structs that a caller compiled against an older or a newer
              // header, and what else of its arguments is checked first.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <gantry/channel.hpp>
#include <string>

#include "errors.hpp"

namespace gantry::c {

/// A struct larger than this is none of ours: its size was not set.
inline constexpr std::size_t kMostStructBytes = 4096;

/// The sizes that a struct had in its first version; they stay as the structs grow.
template <class Struct>
inline constexpr std::size_t kFirstBytes = sizeof(Struct);
template <>
inline constexpr std::size_t kFirstBytes<gantry_queue_options> =
    offsetof(gantry_queue_options, most_items);

template <class Struct>
[[nodiscard]] Result<std::size_t> size_of(const Struct* given, const char* name) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size >= kFirstBytes<Struct> && size <= kMostStructBytes) return size;
  return fail(Code::invalid_argument,
              std::string(name) + ": its size is " + std::to_string(size) + ", not " +
                  std::to_string(sizeof(Struct)),
              std::string("set it: ") + name + " x = {sizeof x}");
}

/// What the caller set; NULL: all defaults. Of a newer caller's struct, what lies behind that which
/// is known must be 0: else the caller asks for what this library does not have.
template <class Struct>
[[nodiscard]] Result<Struct> read_struct(const Struct* given, const char* name) {
  Struct known{};
  if (given == nullptr) return known;
  GANTRY_C_ASSIGN(const std::size_t size, size_of(given, name));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min(size, sizeof known), bytes + size,
                  [](unsigned char byte) { return byte != 0; }))
    return fail(Code::unsupported,
                std::string(name) + ": a field behind the " + std::to_string(sizeof known) +
                    " bytes that this library knows is set",
                "leave it 0, or use the library that the header belongs to");
  std::memcpy(&known, given, std::min(size, sizeof known));
  known.size = sizeof known;
  return known;
}

/// Gives the caller as much as its struct holds; fields that this library does not know become 0.
template <class Struct>
[[nodiscard]] Result<void> write_struct(Struct* into, Struct value, const char* name) {
  GANTRY_C_ASSIGN(const std::size_t size, size_of(into, name));
  value.size = size;
  std::memcpy(into, &value, std::min(size, sizeof value));
  if (size > sizeof value)
    std::memset(reinterpret_cast<unsigned char*>(into) + sizeof value, 0, size - sizeof value);
  return {};
}

[[nodiscard]] inline Result<void> check_pointer(const void* given, const char* name) {
  if (given != nullptr) return {};
  return fail(Code::invalid_argument, std::string(name) + " is NULL");
}

/// Of what a function returns by a pointer: it is 0 or NULL unless the function succeeds.
template <class Value>
[[nodiscard]] Result<void> clear(Value* into, const char* name) {
  if (into == nullptr) return fail(Code::invalid_argument, std::string(name) + " is NULL");
  *into = Value{};
  return {};
}

[[nodiscard]] inline Result<Deadline> deadline_of(std::int64_t timeout_ns) {
  if (timeout_ns == 0) return Deadline::now();
  if (timeout_ns > 0) return Deadline::after(std::chrono::nanoseconds(timeout_ns));
  if (timeout_ns == -1) return Deadline::never();
  return fail(Code::invalid_argument,
              "timeout_ns is " + std::to_string(timeout_ns) + ", which is no time",
              "-1 waits for ever, 0 not at all");
}

[[nodiscard]] inline Result<SendMode> mode_of(std::uint32_t mode) {
  if (mode <= GANTRY_MODE_IMMUTABLE) return static_cast<SendMode>(mode);
  return fail(Code::invalid_argument, "no send mode has the number " + std::to_string(mode));
}

/// Of an end: 0 stands for its runtime's, which has -1 for none.
[[nodiscard]] constexpr int interrupt_of(int given, int of_runtime) noexcept {
  return given == 0 ? of_runtime : given;
}

}  // namespace gantry::c
