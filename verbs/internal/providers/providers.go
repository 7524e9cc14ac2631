// Package providers lists the providers: the packages that reach devices. It is the only package that imports them, so that
// package verbs depends on none of them.
package providers

import (
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/libibverbs"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// SoftRoCE returns the provider for the kernel's Soft-RoCE devices.
func SoftRoCE() ib.Provider { return rxe.New() }

// Library returns the provider for all other devices: the installed libibverbs.
func Library() ib.Provider { return libibverbs.New() }
