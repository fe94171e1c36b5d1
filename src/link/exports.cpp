#include "link/exports.hpp"

#include <sys/random.h>

#include "base/result.hpp"

namespace gantry {
namespace {

std::uint64_t random_start() noexcept {
  std::uint32_t number = 0;
  static_cast<void>(!::getrandom(&number, sizeof number, 0));
  return static_cast<std::uint64_t>(number) << 32;
}

bool permits(RemoteAccess has, RemoteAccess wanted) noexcept {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(has) & bits) == bits;
}

}  // namespace

Exports::Exports() : last_key_(random_start()), first_key_(last_key_ + 1) {}

Result<std::uint64_t> Exports::add(ByteSpan memory, RemoteAccess access) {
  if (memory.data() == nullptr || memory.empty())
    return fail(Code::invalid_argument, "exporting no memory");
  if (entries_.size() >= kMost)
    return fail(Code::busy, fmt::format("exporting more than {} pieces of memory", kMost),
                "export larger pieces, such as a pool's slabs");
  entries_.emplace(last_key_ + 1, Entry{memory, access});
  return ++last_key_;
}

void Exports::set_shared(std::uint64_t key) {
  Entry& entry = entries_.at(key);
  shared_[entry.memory.data()] = key;
  entry.is_shared = true;
}

std::optional<Exports::Entry> Exports::remove(std::uint64_t key) noexcept {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  entries_.erase(found);
  const auto shared = shared_.find(entry.memory.data());
  if (shared != shared_.end() && shared->second == key) shared_.erase(shared);
  return entry;
}

Exports::Verdict Exports::find(std::uint64_t key, RemoteAccess wanted, Bytes offset, Bytes rows,
                               Bytes row_bytes, Bytes stride, std::byte*& first) const noexcept {
  const auto found = entries_.find(key);
  if (found == entries_.end())
    return key >= first_key_ && key <= last_key_ ? Verdict::withdrawn : Verdict::never;  // I1
  const Entry& entry = found->second;
  if (!permits(entry.access, wanted)) return Verdict::denied;
  if (!rows_fit(entry.memory.size(), offset, rows, row_bytes, stride)) return Verdict::beyond;
  first = entry.memory.data() + offset;
  return Verdict::ok;
}

std::optional<Exports::Place> Exports::shared_place(ConstByteSpan memory) const noexcept {
  auto after = shared_.upper_bound(memory.data());
  if (after == shared_.begin()) return {};
  const auto& [begin, key] = *--after;
  const auto offset = static_cast<Bytes>(memory.data() - begin);
  const Bytes size = entries_.at(key).memory.size();
  if (offset > size || memory.size() > size - offset) return {};
  return Place{key, offset};
}

}  // namespace gantry
