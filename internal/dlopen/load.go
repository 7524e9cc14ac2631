//go:build linux && !static && (amd64 || arm64)

package dlopen

import (
	"maps"
	"runtime"
	"slices"

	"github.com/ebitengine/purego"
)

// Load loads the library and sets the functions of the symbols. The library is never unloaded, because libraries leave threads
// and handlers behind. Load returns a [MissingError] if the library is missing, or a function that is not optional.
func Load(l *Library, symbols Symbols) error {
	runtime.LockOSThread() // the error of the dynamic linker belongs to the thread
	defer runtime.UnlockOSThread()
	scope := purego.RTLD_LOCAL
	if l.Global {
		scope = purego.RTLD_GLOBAL
	}
	handle, err := purego.Dlopen(l.Name, purego.RTLD_NOW|scope)
	if err != nil {
		return &MissingError{What: l.Name, Need: l.Packages, Err: err}
	}
	for _, name := range slices.Sorted(maps.Keys(symbols)) { // sorted: the error always names the same function
		in := handle
		if slices.Contains(l.Shared, name) {
			in = purego.RTLD_DEFAULT
		}
		addr, err := purego.Dlsym(in, name)
		if err != nil && slices.Contains(l.Optional, name) {
			continue
		}
		if err != nil {
			return &MissingError{What: "function " + name + " of " + l.Name, Need: l.Version, Err: err}
		}
		purego.RegisterFunc(symbols[name], addr)
	}
	return nil
}
