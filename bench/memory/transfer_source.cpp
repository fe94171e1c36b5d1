#include "transfer_source.hpp"

#include <algorithm>
#include <filesystem>

#include "../support/system/posix.hpp"

namespace gantry::bench {
namespace {

PoolOptions pool_options() {
  PoolOptions options;
  options.collapse = true;  // the pool of a channel that lives long
  return options;
}

void number(ByteSpan bytes, std::uint64_t place) {
  if (bytes.data() == nullptr) return;  // a block always has some
  const auto word = std::as_bytes(std::span(&place, 1));
  std::ranges::fill(bytes, static_cast<std::byte>(place));
  std::ranges::copy(word, bytes.begin());
  std::ranges::copy(word, bytes.last(word.size()).begin());
}

}  // namespace

TransferSource::~TransferSource() {
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<void> TransferSource::open(std::string_view subject, Bytes bytes,
                                  std::shared_ptr<Registrar> registrar,
                                  const std::string& directory) {
  bytes_ = bytes;
  registrar_ = std::move(registrar);
  is_by_address_ = subject == kOwnByAddress;
  return subject == kReceivedMessage ? open_received(directory) : open_own();
}

Result<void> TransferSource::open_own() {
  PoolOptions options = pool_options();
  options.registrars = {registrar_};
  auto pool = Pool::create(options);
  if (!pool) return Unexpected(pool.error());
  for (std::uint64_t place = 1; place <= kPlaces; ++place) {
    auto block = pool->allocate(bytes_);
    if (!block) return Unexpected(block.error());
    number(block->bytes(), place);
    blocks_.push_back(std::move(*block));
  }
  return {};
}

Result<void> TransferSource::open_received(const std::string& directory) {
  directory_ = directory + "/gantry-bench-XXXXXX";
  if (::mkdtemp(directory_.data()) == nullptr)
    return Unexpected(system_error("making a folder for the channel"));
  auto runtime = Runtime::create({.directory = directory_, .engine = "inline"});
  if (!runtime) return Unexpected(runtime.error());
  runtime_.emplace(std::move(*runtime));
  ProducerOptions sending;
  sending.pool = pool_options();
  auto out = runtime_->producer("source", sending);
  if (!out) return Unexpected(out.error());
  out_.emplace(std::move(*out));
  ConsumerOptions receiving;
  receiving.registrars = {registrar_};
  auto in = runtime_->consumer("source", receiving, Deadline::after(std::chrono::seconds(10)));
  if (!in) return Unexpected(in.error());
  in_.emplace(std::move(*in));
  for (std::uint64_t place = 1; place <= kPlaces; ++place) {
    auto loan = out_->loan(bytes_);
    if (!loan) return Unexpected(loan.error());
    number(loan->bytes(), place);
    if (const auto sent = out_->publish(std::move(*loan)); !sent) return sent;
    auto message = in_->receive();
    if (!message) return Unexpected(message.error());
    messages_.push_back(std::move(*message));
  }
  return {};
}

// Where a registrar has no way for what may only be read, the address serves.
Result<std::optional<DeviceKey>> TransferSource::key_of_turn() const {
  if (is_by_address_) return std::optional<DeviceKey>();
  if (messages_.empty()) {
    const auto key = blocks_[turn_].key_for(*registrar_);
    if (!key) return Unexpected(key.error());
    return std::optional(*key);
  }
  auto key = messages_[turn_].key_for(*registrar_);
  if (!key && key.error().code == Code::unsupported) return std::optional<DeviceKey>();
  return key;
}

ConstByteSpan TransferSource::bytes_of_turn() const {
  return messages_.empty() ? ConstByteSpan(blocks_[turn_].bytes()) : messages_[turn_].bytes();
}

}  // namespace gantry::bench
