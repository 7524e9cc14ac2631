//go:build !linux || static || !(amd64 || arm64)

package libibverbs

import (
	"github.com/ibrun/ibrun/internal/dlopen"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Provider is a stand-in for the provider in programs that were built without it.
type Provider struct{}

// New returns the provider.
func New() *Provider { return &Provider{} }

// Name returns "libibverbs".
func (*Provider) Name() string { return "libibverbs" }

// Open returns a [MissingError].
func (*Provider) Open(ib.Device) (ib.Context, error) {
	return nil, &MissingError{What: "the libibverbs provider", Need: dlopen.Needs}
}
