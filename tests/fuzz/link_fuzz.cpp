// Records as a hostile peer writes them to a link: nothing but exported memory is written.
#include <sys/socket.h>

#include <array>
#include <gantry/link.hpp>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "fuzz/input.hpp"
#include "net/link/record.hpp"

namespace {

using namespace gantry;
using fuzz::require;

constexpr Bytes kMemory = 3000;
constexpr Bytes kFirst = 1000;  // exported: a third of it
constexpr Bytes kSize = 1000;

// Mostly a valid head, so that what lies behind is reached; the link's keys cannot be guessed.
LinkRecord::Encoded next_head(fuzz::Input& input, const std::array<std::uint64_t, 2>& keys) {
  const auto choice = input.take<std::uint8_t>();
  auto head = input.take<LinkRecord::Encoded>();
  if (choice % 8 == 0) return head;
  const auto valid = LinkRecord{}.encode();
  std::copy_n(valid.begin(), 4, head.begin());
  head[5] = head[7] = std::byte{0};
  std::fill_n(head.end() - 8, 8, std::byte{0});
  if (choice % 8 < 5) store_number(&head[16], keys[choice / 8 % keys.size()], 8);
  return head;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Fd raw(ends[0]);
  const bool is_shared = input.take<std::uint8_t>() % 2 == 0;
  const LinkOptions options{.peer = "fuzz", .stall_limit = {}};
  auto link = is_shared ? make_shared_link(ends[1], *make_inline_engine(), options)
                        : make_stream_link(ends[1], options);
  require(link.has_value());
  std::vector<std::byte> memory(kMemory, std::byte{7});
  const auto writable =
      (*link)->export_memory(std::span(memory).subspan(kFirst, kSize), RemoteAccess::write);
  const auto readable = (*link)->export_memory(memory, RemoteAccess::read);
  while (!input.empty()) {
    const auto head = next_head(input, {writable->remote().key, readable->remote().key});
    const auto payload = input.take_bytes(input.take<std::uint16_t>());
    static_cast<void>(!::send(raw.get(), head.data(), head.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    static_cast<void>(
        !::send(raw.get(), payload.data(), payload.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    while ((*link)->poll()) continue;
  }
  for (Bytes at = 0; at < memory.size(); ++at)
    require((at >= kFirst && at < kFirst + kSize) || memory[at] == std::byte{7});
  return 0;
}
