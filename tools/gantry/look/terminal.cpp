#include "look/terminal.hpp"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "output.hpp"

namespace gantry::cli {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::array kFatal{SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// For the signal handler, hence not members.
termios found{};          // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
bool must_reset = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
bool must_leave = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Async-signal-safe.
void give_back() noexcept {
  if (must_reset) ::tcsetattr(STDIN_FILENO, TCSANOW, &found);
  must_reset = false;
  // Nobody is left to be told that it could not be written.
  if (must_leave && ::write(STDOUT_FILENO, kLeave.data(), kLeave.size()) < 0) must_leave = false;
  must_leave = false;
}

void give_back_and_die(int number) {
  give_back();
  ::raise(number);  // SA_RESETHAND: now as usual
}

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

bool Terminal::is_possible() noexcept {
  const char* const kind = ::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (kind == nullptr || std::strcmp(kind, "dumb") != 0);
}

Terminal::Terminal() {
  for (const int number : kFatal) handle(number, give_back_and_die, static_cast<int>(SA_RESETHAND));
  handle(SIGTSTP, SIG_IGN, 0);
  if (::tcgetattr(STDIN_FILENO, &found) == 0) {
    has_keys_ = must_reset = true;
    termios keys = found;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C is a signal
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    keys.c_cc[VSUSP] = keys.c_cc[VQUIT] = _POSIX_VDISABLE;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  must_leave = true;
  static_cast<void>(print(kEnter));  // the first show() tells whether anybody sees it
}

Terminal::~Terminal() {
  give_back();
  for (const int number : kFatal) handle(number, SIG_DFL, 0);
  handle(SIGTSTP, SIG_DFL, 0);
}

std::optional<char> Terminal::key() noexcept {
  char pressed = 0;
  const ssize_t got = ::read(STDIN_FILENO, &pressed, 1);
  if (got == 1) return pressed;
  has_keys_ = false;  // hung up
  return std::nullopt;
}

Result<void> Terminal::show(std::string_view text) {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row == 0)
    window = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  std::string frame = "\x1b[H";
  for (unsigned row = 1; row <= window.ws_row && !text.empty(); ++row) {
    const auto end = text.find('\n');
    frame += text.substr(0, end).substr(0, window.ws_col);
    frame += row == window.ws_row ? "\x1b[K" : "\x1b[K\r\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return print(frame + "\x1b[J");
}

}  // namespace gantry::cli
