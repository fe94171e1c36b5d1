#include "net/remote/token.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <gantry/bridge.hpp>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"

#ifdef GANTRY_HAVE_SODIUM
#include <sodium.h>
#endif

namespace gantry {
namespace {

constexpr const char* kTokenVariable = "GANTRY_TOKEN_FILE";
constexpr const char* kMakeToken =
    "make one where the bridge runs: (umask 077; head -c 32 /dev/urandom | base64 >FILE); "
    "elsewhere copy that file";

bool has_right_size(std::string_view token) noexcept {
  return token.size() >= kLeastTokenBytes && token.size() <= kMostTokenBytes;
}

// Of a file no more is read than shows that it is too much.
std::string size_text(std::string_view token) {
  return token.size() > kMostTokenBytes ? fmt::format("more than {}", kMostTokenBytes)
                                        : fmt::format("{}", token.size());
}

}  // namespace

Result<std::string> read_bridge_token(const std::string& path) {
  return guarded([&]() -> Result<std::string> {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file)
      return fail_errno(
          fmt::format("token file '{}'", path), errno,
          errno == EACCES ? "chown or chmod it for this user, or run as its owner" : kMakeToken);
    struct stat facts{};
    if (::fstat(file.get(), &facts) != 0) return fail_errno(fmt::format("token file '{}'", path));
    if (!S_ISREG(facts.st_mode))
      return fail(Code::invalid_argument, fmt::format("token file '{}' is no file", path),
                  kMakeToken);
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      return fail(
          Code::permission_denied,
          fmt::format("token file '{}': others can use it (mode {:o})", path, facts.st_mode & 0777),
          fmt::format("chmod 600 {}, and make a new one if somebody may have read it", path));
    std::array<char, kMostTokenBytes + 2> text{};
    const auto size = ::read(file.get(), text.data(), text.size());
    if (size < 0) return fail_errno(fmt::format("token file '{}'", path));
    std::string token(text.data(), static_cast<std::size_t>(size));
    token.resize(std::min(token.find_first_of("\r\n"), token.size()));
    if (!has_right_size(token))
      return fail(
          Code::invalid_argument,
          fmt::format("token file '{}': its first line is the token, which has {} bytes; it "
                      "must have {} to {}",
                      path, size_text(token), kLeastTokenBytes, kMostTokenBytes),
          kMakeToken);
    if (auto checked = check_token(token); !checked)
      return prefixed(std::move(checked).error(), "token file '{}'", path);
    return token;
  });
}

Result<void> check_token(std::string_view token) {
  if (!has_right_size(token))
    return fail(Code::invalid_argument,
                fmt::format("a token of {} bytes; it must have {} to {}", token.size(),
                            kLeastTokenBytes, kMostTokenBytes),
                kMakeToken);
#ifdef GANTRY_HAVE_SODIUM
  if (::sodium_init() >= 0) return {};
  return fail(Code::system, "libsodium cannot be initialised: the kernel has no random numbers");
#else
  return fail(Code::unsupported, "this build has no links between hosts: libsodium was not found",
              "install libsodium-dev and build again");
#endif
}

Result<std::string> token_or_file(const std::string& given) {
  if (!given.empty()) {
    GANTRY_TRY(check_token(given));
    return given;
  }
  const char* const path = ::secure_getenv(kTokenVariable);
  if (path == nullptr || *path == '\0')
    return fail(Code::permission_denied, "a channel of another host needs the token of its bridge",
                fmt::format("name the file that holds it in ${}, or set "
                            "EndOptions::remote.token",
                            kTokenVariable));
  return read_bridge_token(path);
}

#ifdef GANTRY_HAVE_SODIUM

Nonce make_nonce() {
  Nonce nonce;
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Proof prove(std::string_view token, std::string_view role, const Nonce& bridge, const Nonce& caller,
            ConstByteSpan said) {
  static_assert(crypto_auth_hmacsha512256_BYTES == std::tuple_size_v<Proof>);
  const auto words = [](const auto& from) {
    return reinterpret_cast<const unsigned char*>(from.data());
  };
  std::array<unsigned char, crypto_auth_hmacsha512256_KEYBYTES> key{};
  ::crypto_generichash(key.data(), key.size(), words(token), token.size(), nullptr, 0);
  crypto_auth_hmacsha512256_state state;
  ::crypto_auth_hmacsha512256_init(&state, key.data(), key.size());
  for (const ConstByteSpan part :
       {std::as_bytes(std::span(role)), ConstByteSpan(bridge), ConstByteSpan(caller), said})
    ::crypto_auth_hmacsha512256_update(&state, words(part), part.size());
  Proof proof;
  ::crypto_auth_hmacsha512256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  ::sodium_memzero(key.data(), key.size());
  return proof;
}

bool is_same_proof(const Proof& one, const Proof& other) noexcept {
  return ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

#else

// Not reached: check_token() fails.
Nonce make_nonce() {
  return {};
}
Proof prove(std::string_view, std::string_view, const Nonce&, const Nonce&, ConstByteSpan) {
  return {};
}
bool is_same_proof(const Proof&, const Proof&) noexcept {
  return false;
}

#endif

}  // namespace gantry
