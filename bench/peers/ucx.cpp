// UCX: tagged messages between two processes over shared memory or TCP; receives are posted before
// the messages come. Variants differ in the transports that UCX may use.

#include <ucp/api/ucp.h>

#include <cstring>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr ucp_tag_t kRequest = 1;
constexpr ucp_tag_t kReply = 2;
constexpr ucp_tag_t kWhole = ~ucp_tag_t{0};  // the tag must be the same in every bit

Result<void> checked(const char* what, ucs_status_t status) {
  if (status == UCS_OK) return {};
  return Unexpected(peer_error(what, ucs_status_string(status)));
}

/// A variant is "posix", "cma" or the network interface for TCP.
void set_paths(ucp_config_t* config, const std::string& variant) {
  const bool is_local = variant == "posix" || variant == "cma";
  if (!is_local) ucp_config_modify(config, "NET_DEVICES", variant.c_str());
  const char* const local = variant == "cma" ? "posix,cma,self" : "posix,self";
  ucp_config_modify(config, "TLS", is_local ? local : "tcp");
}

/// One worker and its connections.
class Worker {
 public:
  static Result<std::unique_ptr<Worker>> open(const Assignment& told) {
    std::unique_ptr<Worker> made(new Worker(told.what));
    if (auto begun = made->begin(told); !begun) return Unexpected(begun.error());
    for (const int socket : told.sockets)
      if (auto met = made->meet(socket); !met) return Unexpected(met.error());
    return made;
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  /// Null: it has gone already.
  void* start_send(std::size_t to, ConstByteSpan bytes, ucp_tag_t tag) {
    const ucp_request_param_t param{};
    return ucp_tag_send_nbx(ends_[to], bytes.data(), bytes.size(), tag, &param);
  }
  void* start_receive(ByteSpan bytes, ucp_tag_t tag) {
    const ucp_request_param_t param{};
    return ucp_tag_recv_nbx(worker_, bytes.data(), bytes.size(), tag, kWhole, &param);
  }
  /// Polls until it is over.
  Result<void> finish(const char* what, void* request) {
    if (request == nullptr) return {};
    if (UCS_PTR_IS_ERR(request)) return checked(what, UCS_PTR_STATUS(request));
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
      if (ucp_worker_progress(worker_) == 0) poll_.again();
    ucp_request_free(request);
    return checked(what, status);
  }
  void drop(void* request) {
    if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
    ucp_request_cancel(worker_, request);
    static_cast<void>(finish("cancel", request));
  }

 private:
  explicit Worker(const Case& what) : poll_(what) {}

  Result<void> begin(const Assignment& told) {
    ucp_config_t* config = nullptr;
    if (auto read = checked("ucp_config_read", ucp_config_read(nullptr, nullptr, &config)); !read)
      return read;
    set_paths(config, told.variant);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    auto begun = checked("ucp_init", ucp_init(&params, config, &context_));
    ucp_config_release(config);
    if (!begun) return begun;
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    return checked("ucp_worker_create", ucp_worker_create(context_, &worker, &worker_));
  }

  /// Exchanges addresses with whoever is at the other end of the socket, and connects.
  Result<void> meet(int socket) {
    ucp_address_t* mine = nullptr;
    Bytes size = 0;
    auto known = checked("ucp_worker_get_address", ucp_worker_get_address(worker_, &mine, &size));
    if (!known) return known;
    auto told = write_all(socket, std::as_bytes(std::span(&size, 1)));
    if (told) told = write_all(socket, {reinterpret_cast<const std::byte*>(mine), size});
    ucp_worker_release_address(worker_, mine);
    if (!told) return told;
    if (auto got = read_all(socket, std::as_writable_bytes(std::span(&size, 1))); !got) return got;
    std::vector<std::byte> theirs(size);
    if (auto got = read_all(socket, theirs); !got) return got;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
    return checked("ucp_ep_create", ucp_ep_create(worker_, &params, &ends_.emplace_back()));
  }

  Poll poll_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_ep_h> ends_;
};

class UcxRequester final : public Requester {
 public:
  UcxRequester(std::unique_ptr<Worker> worker, Case what)
      : worker_(std::move(worker)), what_(std::move(what)), pending_(what_.in_flight) {}

  Result<void> send(const Payload& payload) override {
    auto& pending = pending_[sent_++ % pending_.size()];
    for (const ConstByteSpan part : parts_of(what_, payload.bytes()))
      for (std::size_t reader = 0; reader < what_.readers; ++reader)
        pending.push_back(worker_->start_send(reader, part, kRequest));
    return what_.in_flight == 1 ? finish(pending) : Result<void>{};
  }

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    auto* const reply = worker_->start_receive(std::as_writable_bytes(std::span(&sum, 1)), kReply);
    if (auto come = worker_->finish("reply", reply); !come) return Unexpected(come.error());
    reader_ = (reader_ + 1) % what_.readers;
    if (reader_ != 0) return sum;
    auto sent = finish(pending_[answered_++ % pending_.size()]);
    if (!sent) return Unexpected(sent.error());
    return sum;
  }

 private:
  Result<void> finish(std::vector<void*>& pending) {
    for (void* const request : pending)
      if (auto sent = worker_->finish("send", request); !sent) return sent;
    pending.clear();
    return {};
  }

  std::unique_ptr<Worker> worker_;
  Case what_;
  std::vector<std::vector<void*>> pending_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  unsigned reader_ = 0;
};

class UcxResponder final : public Responder {
 public:
  UcxResponder(std::unique_ptr<Worker> worker, Case what)
      : worker_(std::move(worker)), what_(std::move(what)), places_(what_) {
    posted_.resize(places_.count());
    for (std::uint64_t message = 0; message < places_.count(); ++message) post(message);
  }
  UcxResponder(const UcxResponder&) = delete;
  UcxResponder& operator=(const UcxResponder&) = delete;
  ~UcxResponder() override {
    for (const auto& requests : posted_)
      for (void* const request : requests) worker_->drop(request);
  }

  Result<std::uint64_t> receive() override {
    const std::uint64_t message = received_++;
    auto& requests = posted_[message % posted_.size()];
    const auto parts = parts_of(what_, places_.at(message));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      void* const request = std::exchange(requests[i], nullptr);
      if (auto come = worker_->finish("receive", request); !come) return Unexpected(come.error());
      sum += checksum(parts[i]);
    }
    post(message + places_.count());
    return sum;
  }

  Result<void> reply(std::uint64_t sum) override {
    auto* const request = worker_->start_send(0, std::as_bytes(std::span(&sum, 1)), kReply);
    return worker_->finish("reply", request);
  }

 private:
  void post(std::uint64_t message) {
    auto& requests = posted_[message % posted_.size()];
    requests.clear();
    for (const ConstByteSpan part : parts_of(what_, places_.at(message)))
      requests.push_back(
          worker_->start_receive({const_cast<std::byte*>(part.data()), part.size()}, kRequest));
  }

  std::unique_ptr<Worker> worker_;
  Case what_;
  Places places_;
  std::vector<std::vector<void*>> posted_;
  std::uint64_t received_ = 0;
};

template <class Base, class End>
Result<std::unique_ptr<Base>> open(const Assignment& told) {
  auto worker = Worker::open(told);
  if (!worker) return Unexpected(worker.error());
  return std::make_unique<End>(std::move(*worker), told.what);
}

Result<std::string> version() {
  return version_text(std::string("UCX ") + ucp_get_version_string(),
                      reinterpret_cast<const void*>(&ucp_get_version_string));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv,
                  {open<Requester, UcxRequester>, open<Responder, UcxResponder>, version});
}
