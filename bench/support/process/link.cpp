#include "link.hpp"

#include <sys/socket.h>

#include <algorithm>

namespace gantry::bench {

Answer Answer::failure(std::string_view text) noexcept {
  Answer answer;
  answer.kind = Kind::failed;
  answer.say(text);
  return answer;
}

void Answer::say(std::string_view what) noexcept {
  what = what.substr(0, text.size() - 1);
  text = {};
  std::copy(what.begin(), what.end(), text.begin());
}

Result<std::pair<Link, Link>> Link::make() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unexpected(system_error("socketpair"));
  }
  return std::pair(Link(Descriptor(ends[0])), Link(Descriptor(ends[1])));
}

void Link::hang_up() noexcept {
  if (socket_.is_open()) ::shutdown(socket_.get(), SHUT_RDWR);
  close();
}

bool Link::send_record(const void* record, Bytes size) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), record, size, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size);
}

bool Link::receive_record(void* record, Bytes size) {
  ssize_t got = 0;
  do {
    got = ::recv(socket_.get(), record, size, 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(size);
}

void obey_commands(Link& link, const std::function<Result<Answer>(const Command&)>& obey,
                   const Stamps* stamps) {
  link.send(Answer{});
  while (const auto command = link.receive<Command>()) {
    const Result<Answer> answer = obey(*command);
    link.send(answer ? *answer : Answer::failure(to_string(answer.error())));
    if (!answer) return;
    if (command->stamped) link.send(*stamps);
  }
}

}  // namespace gantry::bench
