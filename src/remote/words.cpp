#include "remote/words.hpp"

namespace gantry {
namespace {

constexpr auto kLastCode = static_cast<std::uint64_t>(Code::build_failed);

}  // namespace

void write_error(WordWriter& out, const Error& error) {
  out.number(static_cast<std::uint64_t>(error.code), 1);
  out.text(error.message, kLongestRemoteText);
  out.text(error.hint, kLongestRemoteText);
}

Error read_error(WordReader& in) {
  Error error;
  error.code = static_cast<Code>(in.number(1, kLastCode));
  error.message = in.text(kLongestRemoteText);
  error.hint = in.text(kLongestRemoteText);
  return error;
}

}  // namespace gantry
