#include "channel/reader.hpp"

#include <new>

namespace gantry {
namespace {

unsigned depth_for(const Attached& attached, unsigned credits) {
  if (attached.policy == SlowReader::block) return credits;
  const unsigned usual = std::max(credits / 2, 1u);
  return attached.depth == 0 ? usual : std::min(attached.depth, credits);
}

}  // namespace

Result<Region> Reader::make_page(unsigned credits) {
  GANTRY_ASSIGN(Region memory, Region::create(shared_size(sizeof(RingPage)), "gantry-ring"));
  auto* page = new (memory.data()) RingPage{};
  page->magic = kRingMagic;
  page->version = kFormatVersion;
  page->cells = static_cast<std::uint32_t>(cells_for(credits));
  return memory;
}

Reader::Reader(unsigned index, std::unique_ptr<Attached> attached, Region page, unsigned credits)
    : index_(index),
      depth_(depth_for(*attached, credits)),
      attached_(std::move(attached)),
      memory_(std::move(page)),
      ring_(std::span(this->page().ring).first(cells_for(credits))) {}

void Reader::end_stream() noexcept {
  page().end.store(ring_.published() + 1, std::memory_order_seq_cst);  // [E]
  wake();
}

std::vector<MessageRecord> Reader::unread_records() const {
  std::vector<MessageRecord> records;
  for (std::uint64_t back = ring_.unread(); back > 0; --back)
    records.push_back(ring_.record(ring_.published() + 1 - back));
  return records;
}

}  // namespace gantry
