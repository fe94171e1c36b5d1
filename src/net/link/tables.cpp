#include "net/link/tables.hpp"

#include <sys/random.h>

#include "core/base/result.hpp"
#include "core/base/sizes.hpp"

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

Result<void> check_transfer(const Transfer& transfer, RemoteAccess needed, std::string_view what) {
  const auto bytes = payload_of(transfer.rows, transfer.row_bytes);
  const auto here = extent_of(transfer.rows, transfer.row_bytes, transfer.local_stride);
  const auto there = extent_of(transfer.rows, transfer.row_bytes, transfer.remote_stride);
  const auto shape = [&] {
    return fmt::format("{} of {} rows of {} bytes", what, transfer.rows, transfer.row_bytes);
  };
  if (!bytes) return fail(Code::too_large, shape() + ": more than memory has");
  if (!here || !there)
    return fail(Code::invalid_argument,
                fmt::format("{}, with strides {} here and {} there: rows overlap or are out of "
                            "reach",
                            shape(), transfer.local_stride, transfer.remote_stride),
                "a stride is at least as long as a row");
  if (transfer.local == nullptr && *bytes > 0)
    return fail(Code::invalid_argument, shape() + ": no memory at this end");
  if ((static_cast<unsigned>(transfer.remote.access) & static_cast<unsigned>(needed)) == 0)
    return fail(Code::invalid_argument, shape() + ": the far end did not export it for that");
  if (transfer.remote_offset > transfer.remote.bytes ||
      *there > transfer.remote.bytes - transfer.remote_offset)
    return fail(Code::invalid_argument,
                fmt::format("{} at offset {}: beyond the {} bytes that the far end exported",
                            shape(), transfer.remote_offset, transfer.remote.bytes));
  return {};
}

void LearnedCost::add(Bytes bytes, std::chrono::nanoseconds took) noexcept {
  constexpr double kWeight = 0.125;  // of the newest
  const auto ns = static_cast<double>(took.count());
  const auto start = static_cast<double>(cost_.start.count());
  if (bytes <= 16 * kKiB) {
    cost_.start =
        std::chrono::nanoseconds(static_cast<std::int64_t>(start + kWeight * (ns - start)));
  } else if (bytes >= kMiB && ns > start) {
    const double rate = static_cast<double>(bytes) / (ns - start);
    cost_.bytes_per_ns += kWeight * (rate - cost_.bytes_per_ns);
  }
}

Result<Ticket> Transfers::begin(const Transfer& transfer, bool is_put) {
  if (under_way_.size() >= kMost)
    return fail(Code::busy, fmt::format("{} transfers are under way already", kMost),
                "wait for one of them");
  const Ticket ticket{last_ + 1};
  UnderWay one{is_put, transfer.signal.has_value(),     false, transfer.rows * transfer.row_bytes,
               {},     std::chrono::steady_clock::now()};
  if (!is_put) one.into = local_rows(transfer);
  under_way_.emplace(ticket, one);
  ++last_;
  return ticket;
}

Transfers::UnderWay* Transfers::find(Ticket ticket) noexcept {
  const auto found = under_way_.find(ticket);
  return found == under_way_.end() ? nullptr : &found->second;
}

void Transfers::end(Ticket ticket, LinkStatus status) {
  const auto found = under_way_.find(ticket);
  if (found == under_way_.end()) return;
  const UnderWay& one = found->second;
  if (status == LinkStatus::ok) {
    ++(one.is_put ? counted_.puts : counted_.gets);
    (one.is_put ? counted_.put_bytes : counted_.got_bytes) += one.bytes;
    cost_.add(one.bytes, std::chrono::steady_clock::now() - one.begun);
  } else {
    ++counted_.failed;
    if (failed_.size() >= kRemembered) failed_.erase(failed_.begin());  // I1
    failed_.emplace(ticket, status);
  }
  under_way_.erase(found);
}

void Transfers::end_all() noexcept {
  if (!is_over_) counted_.failed += under_way_.size();
  is_over_ = true;
}

Outcome Transfers::outcome(Ticket ticket) const noexcept {
  const auto number = static_cast<std::uint64_t>(ticket);
  if (number == 0 || number > last_ || failed_.contains(ticket)) return Outcome::failed;
  if (!under_way_.contains(ticket)) return Outcome::done;
  return is_over_ ? Outcome::failed : Outcome::pending;
}

bool Transfers::failed_with_link(Ticket ticket) const noexcept {
  return is_over_ && under_way_.contains(ticket);
}

Result<void> Transfers::result(Ticket ticket, const std::string& peer) const {
  const auto number = static_cast<std::uint64_t>(ticket);
  if (outcome(ticket) == Outcome::done) return {};
  const auto found = failed_.find(ticket);
  if (found == failed_.end())
    return fail(Code::invalid_argument,
                fmt::format("link to {}: ticket {} was never given", peer, number));
  if (found->second == LinkStatus::withdrawn)
    return fail(
        Code::not_found,
        fmt::format("link to {}: transfer {}: the far end had ended the export", peer, number));
  if (found->second == LinkStatus::lost)
    return fail(Code::peer_gone,
                fmt::format("link to {}: transfer {}: the connection that payload takes was lost",
                            peer, number),
                "later transfers take the socket; begin it again");
  return fail(
      Code::system,
      fmt::format("link to {}: transfer {}: memory cannot be read or written", peer, number),
      "it must stay mapped at both ends until the ticket has ended");
}

void Transfers::add_to(LinkReport& report) const noexcept {
  report.puts += counted_.puts;
  report.gets += counted_.gets;
  report.failed += counted_.failed;
  report.put_bytes += counted_.put_bytes;
  report.got_bytes += counted_.got_bytes;
}

}  // namespace gantry
