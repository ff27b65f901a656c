#ifndef VLLM_FORENSICS_OPAQUE_H_
#define VLLM_FORENSICS_OPAQUE_H_

namespace demo {

/// The value, unchanged, in a way that no optimiser sees through: what a real program would have
/// read from a file or a request.
template <typename T>
[[gnu::noinline]] T opaque(T value) {
  volatile T hidden = value;
  return hidden;
}

}  // namespace demo

#endif  // VLLM_FORENSICS_OPAQUE_H_
