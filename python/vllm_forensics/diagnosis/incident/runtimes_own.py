"""The frames that are a runtime's, a signal handler's or the system's own, by name and module."""

from __future__ import annotations

import re
from typing import Final

_LOGS: Final = (
    r"google::(?:LogMessage|LogDest|glog_|logging_|Dump|Failure|Install|RawLog|GetStack|Symboliz|"
    r"base::|Check|\W?anonymous|\(unnamed|protobuf::internal::Log)|"
    r"folly::(?:symbolizer|Log|logging|fatal)"
)
"""glog's and folly's own frames, where they print a failed check or handle a signal."""
RUNTIMES_OWN: Final = re.compile(
    rf"(?:absl::|{_LOGS}|std::|boost::(?:throw_exception|wrapexcept|exception_detail)|"
    r"TVMFFI(?:SegFault|Backtrace|Traceback)|"
    r"ucs_(?:debug(?!_cleanup|_init)|handle|error|fatal|log|backtrace)|tvm::ffi::.*[Bb]acktrace|"
    r"llvm::sys::(?:PrintStack|RunSignal|.{0,80}[Ss]ignal)|"
    r"ray::(?:TerminateHandler|operator<<|RayLog|SpdLog)|"
    r"c10::(?:Error|detail::torch|cuda::c10_cuda|FatalSignalHandler|SignalHandler)|"
    r"_?rust_|_{0,2}rustc::|core::|panicking::|(?:option::Option|result::Result)<|sys_common::|sys::backtrace|"
    r"<(?:std|core|alloc)::|(?:internal/)?runtime(?:/[a-z]{2,12}){0,2}\.|"
    r"sync\.(?:fatal|throw|\(\*)|(?:[\w.-]{1,60}/){1,10}k?log(?:rus)?(?:/v\d)?\.|panic$|__kmp_(?:abort|fatal)|"
    r"paddle::(?:framework::SignalHandle|platform::GetCurrentTraceBack)|"
    r"node::(?:Abort|(?:On)?FatalError|OOMErrorHandler|errors::TryCatchScope)|"
    r"Builtins_\w|v8::internal::(?:FunctionCallbackArguments::|Builtin_\w|Execution::|"
    r"\(anonymous namespace\)::(?:HandleApiCall|Invoke)|MaybeHandle<.{1,200}HandleApiCall)|"
    r"ceph::__ceph_(?:abort|assert)|"
    r"v8:$|v8::(?:api_internal|base::|Utils|V8::FromJust|internal::(?:V8|Heap)::Fatal)|"
    r"(?:_?raise|_?_?abort|gsignal|kill(?:pg)?|clone3?|_?_?free|malloc|realloc|calloc|cfree)\b(?!::)|"
    r"__clang_call_terminate|__aarch64_(?:ld|cas|swp)|_{0,3}pthread_|_sigtramp|__restore_rt|"
    r"_{0,2}sigaction|_{0,2}funlockfile$|rb_(?:vm_)?bug|sigsegv$|__llvm_libc::|SignalHandler|__assert|(?:__)?libc_message|__libc(?:_|$)|__fortify|__stack_chk|__chk_fail|"
    r"_{0,2}(?:new_)?sem_wait|_{0,2}waitpid|_{0,2}wait4|__lll_lock|__(?:internal_)?syscall_cancel|"
    r"_{0,2}(?:do_|GI___)?futex_|epoll_wait|_{0,2}(?:poll|select|read|nanosleep|clock_nanosleep)$|"
    r"ggml_(?:print_backtrace|abort|uncaught_exception|(?:cuda|hip|sycl|vk|metal)_error)|"
    r"tensorrt_llm::common::throw|new_threadstate|(?:take|drop)_gil|"
    r"operator (?:new|delete)\b|boost::asio::detail::do_throw_error|"
    r"start_thread|execute_native_thread|_?int_free|_?int_malloc|"
    r"_?int_realloc|fatal_error|_?Py_FatalError|pymain_|faulthandler_|_Py_DumpStack|"
    r"malloc_(?:printerr|consolidate)|tcache_\w{3,20}|unlink_chunk|sysmalloc|_{0,2}strn?dup$|"
    r"__(?:(?:raw|w)?mem(?:p?cpy|move|r?chr|r?cmp|set)|(?:st[rp]|wcs)n?(?:cpy|cat|len|r?chr(?:nul)?|"
    r"(?:case)?cmp|c?spn|pbrk|(?:case)?str))_[a-z]\w{1,40}|"
    r"(?:mem(?:p?cpy|move|r?chr|r?cmp|set)|(?:str|wcs)n?(?:cpy|cat|len|r?chr(?:nul)?|(?:case)?cmp|"
    r"c?spn|pbrk|(?:case)?str))(?:\(|$)|"
    r"_{0,3}v?f?printf_(?:internal|chk)|buffered_vfprintf|"
    r"(?:kdb_backtrace|vpanic|trap_fatal|trap_pfault|calltrap|kerntrap|alltraps\w*)$|"
    r"_?g_(?:log(?:v|_\w{1,40})?|assertion_\w{1,40}|return_if_fail_warning|error|on_error_\w{1,20})$|"
    r"os::(?:abort|Linux|Posix)|VMError::|JVM_handle_\w{1,20}_signal|report_vm_error|"
    r"uwsgi_(?:backtrace|segfault)|qAbort|qFatal|QMessageLogger::fatal|qt_(?:assert|message)|"
    r"(?i:jcldebug|jclhookexcept)\.|System\.@(?:Internal)?Rais|"
    r"__exceptionPreprocess|_?objc_(?:exception_throw|terminate)|"
    r"[+-]\[NS(?:Exception|AssertionHandler) |"
    r"-\[NSObject\(NSObject\) (?:doesNotRecognizeSelector|__retain_OA)|___forwarding___|"
    r"art_(?:jni|quick)_\w{3,40}|nterp_helper|_CF_forwarding_prep|demangling_terminate_handler|"
    r"\(anonymous namespace\)::(?:.*[Ss]ignal.*Handler|.*[Bb]acktrace.*))"
)
LAST_FUNCTIONS: Final = re.compile(
    r"_{0,2}(?:GI_)?abort(?:\(\))?$|panic$|qAbort|qFatal|QMessageLogger::fatal|qt_assert|"
    r"(?:v8::(?:base|internal)::)?V8_Fatal|node::(?:Abort|Assert)\b|System\.@(?:Internal)?Rais"
)
"""The last functions of the C library, of Go, Qt, V8 and Node."""
PRINTERS: Final = re.compile(
    rf"uwsgi_(?:backtrace|segfault)|absl::|{_LOGS}|"
    r"ucs_(?:debug(?!_cleanup|_init)|handle|error|fatal|log)|llvm::sys::Print|c10::FatalSignal"
)
"""What printed the stack is no place, even where nothing else stands there."""
HANDLING: Final = re.compile(
    r"(?i)(?!faulthandler_thread$)\w*(?:signal|sig|crash|segv|seg_?fault|(?<!de)fault|exception|abort|terminate)"
    r"_?(?:action_)?"
    r"(?:handl(?:er)?|catcher|hook|callback|filter)\w*|(?:on|handle)_?(?:\w{1,20}_)?(?:signal|crash|segv|"
    r"seg_?fault|fatal|sig)\w*|(?!__rust_begin_)\w*(?:stack|back)_?(?:trace|walk)\w*|\w*(?:dump|print)_?stack\w*|\w*minidump\w*|sig_\w{1,20}_cb|"
    r"\w*(?:assert(?:ion)?|check_?verify)_?fail(?:ed|ure)?\w*"
)
"""A handler's frame, by what it is called in most programs."""
SYSTEMS_MODULES: Final = re.compile(
    r"(?i:libsystem_\w+\.dylib|libc\+\+(?:abi)?(?:\.1)?\.dylib|libobjc\.A\.dylib|libdyld\.dylib|dyld|Python|"
    r"lib(?:art|base|nativehelper|nativeloader|sigchain)\.so|org\.python\.python|"
    r"libruby[.-][\w.-]{1,20}|lib(?:gfortran|ifcore\w{0,4}|flang\w{0,8})[.-][\w.-]{1,30}|"
    r"(?:ntdll|wow64(?:cpu)?|kernelbase|kernel32|"
    r"user32|gdi32(?:full)?|win32u|com(?:ctl|dlg)32|shell32|ole32|combase|rpcrt4|sechost)(?:\.dll)?|"
    r"libswift(?:Core|_Concurrency)\.(?:dylib|so)|ucrtbase(?:\.dll)?|vcruntime\w*(?:\.dll)?|msvcrt(?:\.dll)?|python\d+\.dll)"
)
"""The C libraries and the interpreters of macOS, Windows and Android, Ruby's and Fortran's."""
