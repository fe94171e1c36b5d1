#include "errors.hpp"

#include <algorithm>
#include <array>

namespace gantry::c {
namespace {

struct CodeRow {
  gantry_code number;
  Code code;
  const char* name;
};

// In the order of their numbers, from 1. A code that the library gets has its row here, and its
// number in gantry.h: number_of() is not compiled without it.
constexpr std::array<CodeRow, 19> kCodes{{
    {GANTRY_INVALID_ARGUMENT, Code::invalid_argument, "invalid_argument"},
    {GANTRY_NOT_FOUND, Code::not_found, "not_found"},
    {GANTRY_ALREADY_EXISTS, Code::already_exists, "already_exists"},
    {GANTRY_PERMISSION_DENIED, Code::permission_denied, "permission_denied"},
    {GANTRY_OUT_OF_MEMORY, Code::out_of_memory, "out_of_memory"},
    {GANTRY_TOO_LARGE, Code::too_large, "too_large"},
    {GANTRY_TIMED_OUT, Code::timed_out, "timed_out"},
    {GANTRY_BUSY, Code::busy, "busy"},
    {GANTRY_INTERRUPTED, Code::interrupted, "interrupted"},
    {GANTRY_CLOSED, Code::closed, "closed"},
    {GANTRY_PEER_GONE, Code::peer_gone, "peer_gone"},
    {GANTRY_ABORTED, Code::aborted, "aborted"},
    {GANTRY_PEER_MISBEHAVED, Code::peer_misbehaved, "peer_misbehaved"},
    {GANTRY_UNSUPPORTED, Code::unsupported, "unsupported"},
    {GANTRY_SYSTEM, Code::system, "system"},
    {GANTRY_DEVICE_FULL, Code::device_full, "device_full"},
    {GANTRY_DEVICE_LOST, Code::device_lost, "device_lost"},
    {GANTRY_KERNEL_FAULT, Code::kernel_fault, "kernel_fault"},
    {GANTRY_BUILD_FAILED, Code::build_failed, "build_failed"},
}};

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < kCodes.size(); ++i)
    if (kCodes[i].number != static_cast<gantry_code>(i + 1)) return false;
  return true;
}
static_assert(are_in_order());
static_assert(static_cast<std::size_t>(Code::build_failed) + 1 == kCodes.size());

const CodeRow* row_of(gantry_code number) noexcept {
  if (number < 1 || number > static_cast<gantry_code>(kCodes.size())) return nullptr;
  return &kCodes[static_cast<std::size_t>(number) - 1];
}

/// The last error of one thread. Without a destructor, so that the library can be unloaded.
struct LastError {
  gantry_error error{sizeof(gantry_error), GANTRY_OK, "", ""};
  std::array<char, 2048> message{};
  std::array<char, 1024> hint{};
};
thread_local LastError last;

template <std::size_t capacity>
const char* copied(std::string_view text, std::array<char, capacity>& into) noexcept {
  const std::size_t size = std::min(text.size(), capacity - 1);
  std::copy_n(text.data(), size, into.data());
  into[size] = '\0';
  return into.data();
}

}  // namespace

gantry_code number_of(Code code) noexcept {
  const auto* const row = std::ranges::find(kCodes, code, &CodeRow::code);
  return row == kCodes.end() ? GANTRY_SYSTEM : row->number;
}

Code code_of(gantry_code number) noexcept {
  const CodeRow* const row = row_of(number);
  return row == nullptr ? Code::system : row->code;
}

gantry_code keep_error(gantry_code code, std::string_view message, std::string_view hint) noexcept {
  last.error = {sizeof(gantry_error), code, copied(message, last.message), copied(hint, last.hint)};
  return code;
}

}  // namespace gantry::c

const gantry_error* gantry_last_error(void) {
  return &gantry::c::last.error;
}

const char* gantry_code_name(gantry_code code) {
  if (code == GANTRY_OK) return "ok";
  const auto* const row = gantry::c::row_of(code);
  return row == nullptr ? "unknown" : row->name;
}
