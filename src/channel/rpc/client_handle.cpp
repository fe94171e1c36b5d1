#include "base/moved_from.hpp"
#include "channel/rpc/client.hpp"

// Client and PendingReply as their users see them.
namespace gantry {

// ---- a call in flight ----------------------------------------------------------------------

PendingReply::PendingReply() noexcept = default;
PendingReply::PendingReply(PendingReply&&) noexcept = default;
PendingReply& PendingReply::operator=(PendingReply&& other) noexcept {
  std::swap(link_, other.link_);
  std::swap(correlation_, other.correlation_);
  return *this;
}
PendingReply::~PendingReply() {
  cancel();
}

Result<Message> PendingReply::wait(Deadline deadline) {
  return guarded([&]() -> Result<Message> {
    if (!link_) return fail(Code::invalid_argument, "an empty PendingReply");
    return link_->wait(correlation_, deadline);
  });
}
bool PendingReply::is_over() const noexcept {
  return !link_ || link_->is_over(correlation_);
}
void PendingReply::cancel() noexcept {
  if (link_) link_->cancel(correlation_);
}
Result<int> PendingReply::event_descriptor() {
  return guarded([&]() -> Result<int> {
    if (!link_) return fail(Code::invalid_argument, "an empty PendingReply");
    return link_->event_descriptor();
  });
}
void PendingReply::note_woken() noexcept {
  if (link_) link_->note_woken();
}

// ---- the client ----------------------------------------------------------------------------

Client::Client(std::shared_ptr<ClientLink> link) noexcept : link_(std::move(link)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  std::swap(link_, other.link_);
  return *this;
}
Client::~Client() {
  if (link_) link_->hang_up();
}

Result<Client> Client::connect(std::string_view name, const ClientOptions& options,
                               std::shared_ptr<Engine> engine, Deadline deadline) {
  return guarded([&]() -> Result<Client> {
    GANTRY_ASSIGN(auto link, ClientLink::make(name, options, std::move(engine), deadline));
    return Client(std::move(link));
  });
}

Result<void> Client::reconnect(Deadline deadline) {
  return guarded_on(link_, "Client", [&]() -> Result<void> {
    GANTRY_TRY(link_->check_process());
    GANTRY_ASSIGN(auto next, link_->again(deadline));
    link_->hang_up();
    link_ = std::move(next);
    return {};
  });
}

void Client::attach(std::shared_ptr<detail::FarSide> far_side) {
  link_->attach(std::move(far_side));
}

Result<void> Client::check() {
  return guarded_on(link_, "Client", [&] { return link_->check(); });
}

Result<PendingReply> Client::call_async(ConstByteSpan payload, const CallOptions& options) {
  return guarded_on(link_, "Client", [&]() -> Result<PendingReply> {
    GANTRY_ASSIGN(const std::uint64_t correlation,
                  link_->begin(options, [&](const SendOptions& sending) {
                    return link_->requests().send(payload, sending);
                  }));
    PendingReply pending;
    pending.link_ = link_;
    pending.correlation_ = correlation;
    return pending;
  });
}

Result<PendingReply> Client::call_async(Draft draft, const CallOptions& options) {
  return guarded_on(link_, "Client", [&]() -> Result<PendingReply> {
    GANTRY_ASSIGN(const std::uint64_t correlation,
                  link_->begin(options, [&](const SendOptions& sending) {
                    return link_->requests().send(std::move(draft.parts()), sending);
                  }));
    PendingReply pending;
    pending.link_ = link_;
    pending.correlation_ = correlation;
    return pending;
  });
}

Result<Loan> Client::loan(Bytes size, Deadline deadline) {
  return guarded_on(link_, "Client", [&] { return link_->loan(size, deadline); });
}

Result<PendingReply> Client::call_async(Loan loan, const CallOptions& options) {
  return guarded_on(link_, "Client", [&]() -> Result<PendingReply> {
    GANTRY_ASSIGN(const std::uint64_t correlation,
                  link_->begin(options, [&](const SendOptions& sending) {
                    return link_->requests().publish(std::move(loan), sending);
                  }));
    PendingReply pending;
    pending.link_ = link_;
    pending.correlation_ = correlation;
    return pending;
  });
}

Result<Message> Client::call(ConstByteSpan payload, const CallOptions& options) {
  return guarded([&]() -> Result<Message> {
    GANTRY_ASSIGN(PendingReply pending, call_async(payload, options));
    return pending.wait();
  });
}
Result<Message> Client::call(Draft draft, const CallOptions& options) {
  return guarded([&]() -> Result<Message> {
    GANTRY_ASSIGN(PendingReply pending, call_async(std::move(draft), options));
    return pending.wait();
  });
}

Result<int> Client::event_descriptor() {
  return guarded_on(link_, "Client", [&] { return link_->event_descriptor(); });
}

}  // namespace gantry
