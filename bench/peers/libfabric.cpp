// libfabric: messages between two connected endpoints of its provider for TCP; receives are posted
// before the messages come. Both ends poll.

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr int kPatienceMs = 20'000;  // for the other end to come

Result<void> checked(const char* what, ssize_t status) {
  if (status >= 0) return {};
  return Unexpected(peer_error(what, fi_strerror(static_cast<int>(-status))));
}

struct Free {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
struct Close {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
using Info = std::unique_ptr<fi_info, Free>;

/// The provider at a variant's address: ours to listen at, or the other end's.
Result<Info> find_provider(const std::string& endpoint, std::uint64_t flags) {
  const auto colon = endpoint.rfind(':');
  const Info wanted(fi_allocinfo());
  wanted->caps = FI_MSG;
  wanted->ep_attr->type = FI_EP_MSG;
  wanted->fabric_attr->prov_name = ::strdup("tcp");  // freed with it
  fi_info* found = nullptr;
  const int status = fi_getinfo(FI_VERSION(1, 14), endpoint.substr(0, colon).c_str(),
                                endpoint.substr(colon + 1).c_str(), flags, wanted.get(), &found);
  if (auto well = checked("the provider tcp", status); !well) return Unexpected(well.error());
  return Info(found);
}

/// What was begun and is not over; it stays where it is until then.
struct Operation {
  bool is_open = false;
};

/// One connected endpoint.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Assignment& told) {
    std::unique_ptr<Connection> made(new Connection(told.what));
    auto well = told.post.asks() ? made->listen(told) : made->call(told);
    if (!well) return Unexpected(well.error());
    return made;
  }

  Result<void> start_send(ConstByteSpan bytes, Operation& operation) {
    return start("fi_send", operation, [&] {
      return fi_send(endpoint_.get(), bytes.data(), bytes.size(), nullptr, 0, &operation);
    });
  }
  Result<void> start_receive(ByteSpan bytes, Operation& operation) {
    return start("fi_recv", operation, [&] {
      return fi_recv(endpoint_.get(), bytes.data(), bytes.size(), nullptr, 0, &operation);
    });
  }
  /// Polls until it is over.
  Result<void> finish(const Operation& operation) {
    while (operation.is_open)
      if (auto went = progress(); !went) return went;
    return {};
  }

 private:
  explicit Connection(const Case& what) : poll_(what) {}

  template <class Begin>
  Result<void> start(const char* what, Operation& operation, const Begin& begin) {
    ssize_t status = 0;
    while ((status = begin()) == -FI_EAGAIN)
      if (auto went = progress(); !went) return went;
    operation.is_open = status == 0;
    return checked(what, status);
  }

  Result<void> progress() {
    fi_cq_entry entry{};
    const ssize_t ended = fi_cq_read(completions_.get(), &entry, 1);
    if (ended == 1) static_cast<Operation*>(entry.op_context)->is_open = false;
    if (ended == 1) return {};
    if (ended == -FI_EAGAIN) {
      poll_.again();
      return {};
    }
    fi_cq_err_entry failure{};
    if (ended == -FI_EAVAIL && fi_cq_readerr(completions_.get(), &failure, 0) == 1)
      return checked("an operation", -failure.err);
    return checked("fi_cq_read", ended);
  }

  Result<void> listen(const Assignment& told) {
    auto info = find_provider(told.variant, FI_SOURCE);
    if (!info) return Unexpected(info.error());
    if (auto opened = open_fabric(**info); !opened) return opened;
    fid_pep* made = nullptr;
    int status = fi_passive_ep(fabric_.get(), info->get(), &made, nullptr);
    const std::unique_ptr<fid_pep, Close> listener(made);
    if (status == 0) status = fi_pep_bind(made, &events_->fid, 0);
    if (status == 0) status = fi_listen(made);
    if (auto well = checked("fi_listen", status); !well) return well;
    if (auto told_it = signal_over(told.sockets.front()); !told_it) return told_it;
    auto request = await(FI_CONNREQ);
    if (!request) return Unexpected(request.error());
    if (auto opened = open_endpoint(**request); !opened) return opened;
    return connected("fi_accept", fi_accept(endpoint_.get(), nullptr, 0));
  }

  Result<void> call(const Assignment& told) {
    if (auto listens = await_over(told.sockets.front()); !listens) return listens;
    auto info = find_provider(told.variant, 0);
    if (!info) return Unexpected(info.error());
    if (auto opened = open_fabric(**info); !opened) return opened;
    if (auto opened = open_endpoint(**info); !opened) return opened;
    return connected("fi_connect", fi_connect(endpoint_.get(), (*info)->dest_addr, nullptr, 0));
  }

  Result<void> open_fabric(const fi_info& info) {
    fid_fabric* fabric = nullptr;
    if (auto well = checked("fi_fabric", fi_fabric(info.fabric_attr, &fabric, nullptr)); !well)
      return well;
    fabric_.reset(fabric);
    fi_eq_attr attributes{};
    attributes.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* events = nullptr;
    if (auto well = checked("fi_eq_open", fi_eq_open(fabric, &attributes, &events, nullptr)); !well)
      return well;
    events_.reset(events);
    return {};
  }

  Result<void> open_endpoint(fi_info& info) {
    fi_cq_attr attributes{};
    attributes.format = FI_CQ_FORMAT_CONTEXT;
    fid_domain* domain = nullptr;
    int status = fi_domain(fabric_.get(), &info, &domain, nullptr);
    domain_.reset(domain);
    fid_cq* completions = nullptr;
    if (status == 0) status = fi_cq_open(domain, &attributes, &completions, nullptr);
    completions_.reset(completions);
    fid_ep* endpoint = nullptr;
    if (status == 0) status = fi_endpoint(domain, &info, &endpoint, nullptr);
    endpoint_.reset(endpoint);
    if (status == 0) status = fi_ep_bind(endpoint, &events_->fid, 0);
    if (status == 0) status = fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0) status = fi_enable(endpoint);
    return checked("an endpoint", status);
  }

  Result<void> connected(const char* what, int status) {
    if (auto well = checked(what, status); !well) return well;
    const auto event = await(FI_CONNECTED);
    return event ? Result<void>{} : Unexpected(event.error());
  }

  /// The next event, which has to be that one; what it says of the other end.
  Result<Info> await(std::uint32_t wanted) {
    std::uint32_t event = 0;
    fi_eq_cm_entry entry{};
    const auto got = fi_eq_sread(events_.get(), &event, &entry, sizeof entry, kPatienceMs, 0);
    if (auto come = checked("the other end", got); !come) return Unexpected(come.error());
    Info info(entry.info);
    if (event == wanted) return info;
    return Unexpected(peer_error("libfabric", "another event than was waited for"));
  }

  Poll poll_;
  // In this order, so that each goes before what it was made of.
  std::unique_ptr<fid_fabric, Close> fabric_;
  std::unique_ptr<fid_eq, Close> events_;
  std::unique_ptr<fid_domain, Close> domain_;
  std::unique_ptr<fid_cq, Close> completions_;
  std::unique_ptr<fid_ep, Close> endpoint_;
};

class FabricRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(std::unique_ptr<Connection> connection,
                                                 const Case& what) {
    std::unique_ptr<FabricRequester> made(new FabricRequester(std::move(connection), what));
    for (unsigned i = 0; i < what.in_flight; ++i)
      if (auto posted = made->post(i); !posted) return Unexpected(posted.error());
    return made;
  }

  Result<void> send(const Payload& payload) override {
    return connection_->start_send(payload.bytes(), sends_[sent_++ % sends_.size()]);
  }
  Result<std::uint64_t> receive() override {
    const std::size_t place = answered_++ % sends_.size();
    for (const Operation* operation : {&receives_[place], &sends_[place]})
      if (auto over = connection_->finish(*operation); !over) return Unexpected(over.error());
    const std::uint64_t sum = sums_[place];
    if (auto posted = post(place); !posted) return Unexpected(posted.error());
    return sum;
  }

 private:
  FabricRequester(std::unique_ptr<Connection> connection, const Case& what)
      : sums_(what.in_flight),
        sends_(what.in_flight),
        receives_(what.in_flight),
        connection_(std::move(connection)) {}

  Result<void> post(std::size_t place) {
    return connection_->start_receive(std::as_writable_bytes(std::span(&sums_[place], 1)),
                                      receives_[place]);
  }

  std::vector<std::uint64_t> sums_;
  std::vector<Operation> sends_;
  std::vector<Operation> receives_;
  std::unique_ptr<Connection> connection_;  // last: it goes before the memory that it receives into
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
};

class FabricResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(std::unique_ptr<Connection> connection,
                                                 const Case& what) {
    std::unique_ptr<FabricResponder> made(new FabricResponder(std::move(connection), what));
    for (std::uint64_t message = 0; message < made->places_.count(); ++message)
      if (auto posted = made->post(message); !posted) return Unexpected(posted.error());
    return made;
  }

  Result<std::uint64_t> receive() override {
    const std::uint64_t message = received_++;
    auto come = connection_->finish(receives_[message % receives_.size()]);
    if (!come) return Unexpected(come.error());
    const std::uint64_t sum = checksum(places_.at(message));
    if (auto posted = post(message + places_.count()); !posted) return Unexpected(posted.error());
    return sum;
  }
  Result<void> reply(std::uint64_t sum) override {
    sum_ = sum;
    Operation sent;
    auto began = connection_->start_send(std::as_bytes(std::span(&sum_, 1)), sent);
    return began ? connection_->finish(sent) : began;
  }

 private:
  FabricResponder(std::unique_ptr<Connection> connection, const Case& what)
      : places_(what), receives_(what.in_flight), connection_(std::move(connection)) {}

  Result<void> post(std::uint64_t message) {
    return connection_->start_receive(places_.at(message), receives_[message % receives_.size()]);
  }

  Places places_;
  std::vector<Operation> receives_;
  std::uint64_t sum_ = 0;
  std::unique_ptr<Connection> connection_;  // as above
  std::uint64_t received_ = 0;
};

template <class Base, class End>
Result<std::unique_ptr<Base>> open(const Assignment& told) {
  auto connection = Connection::open(told);
  if (!connection) return Unexpected(connection.error());
  return End::open(std::move(*connection), told.what);
}

Result<std::string> version() {
  const std::uint32_t number = fi_version();  // of its interface: 1.17, not 1.17.0
  return version_text(
      "libfabric " + std::to_string(FI_MAJOR(number)) + "." + std::to_string(FI_MINOR(number)),
      reinterpret_cast<const void*>(&fi_version));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv,
                  {open<Requester, FabricRequester>, open<Responder, FabricResponder>, version});
}
