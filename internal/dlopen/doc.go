// Package dlopen loads shared libraries of C at run time, without a C compiler: programs that do not need a library run without
// it. It needs Linux on amd64 or arm64. The build tag static leaves it out, so that a program links statically; [Load] then
// returns a [MissingError] that says so.
package dlopen

import (
	"errors"
	"fmt"
)

// Library describes a library, for the dynamic linker and for the user.
type Library struct {
	// Name is the name that the dynamic linker finds, such as "libibverbs.so.1".
	Name string
	// Packages says what to install if the library is missing, Version what to install if it lacks a function.
	Packages, Version string
	// Global says that the libraries which this one loads itself may use its functions.
	Global bool
	// Shared are functions of other libraries, such as free, that are looked up as this library does: LD_PRELOAD may have replaced
	// those of the C library, and memory must be freed by the library that has allocated it.
	Shared []string
	// Optional are functions that the library may lack, because it is old. Their variables are then nil.
	Optional []string
}

// Symbols are functions of a library by their names in C. Each value is a pointer to a variable of function type, which [Load]
// sets. In that type pointers to memory of C are uintptr. Pointers to Go memory are typed, and C must not keep them.
type Symbols map[string]any

// MissingError reports what is not installed, and what to install. It wraps [errors.ErrUnsupported].
type MissingError struct {
	// What is missing, such as "libibverbs.so.1".
	What string
	// Need is the remedy, such as "the packages libibverbs1 and ibverbs-providers".
	Need string
	// Err is the error of the dynamic linker, or nil.
	Err error
}

// Error returns what is missing, and then what is needed.
func (e *MissingError) Error() string {
	s := fmt.Sprintf("%s is missing: needs %s", e.What, e.Need)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns [errors.ErrUnsupported] and Err.
func (e *MissingError) Unwrap() []error {
	if e.Err == nil {
		return []error{errors.ErrUnsupported}
	}
	return []error{errors.ErrUnsupported, e.Err}
}
