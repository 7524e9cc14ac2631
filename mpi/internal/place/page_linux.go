package place

import (
	"errors"

	"github.com/ibrun/ibrun/internal/job"
	"github.com/ibrun/ibrun/internal/shm"
)

// mapPage maps the page that ibrun has for this process; nil if it has none. It is mapped for as long as the process lives.
func mapPage(hello *job.Hello) ([]byte, error) {
	if hello == nil || hello.Page == nil {
		return nil, nil
	}
	seg, err := shm.Open(hello.Page.FD)
	if err != nil {
		return nil, err
	}
	memory, err := seg.Map(hello.Page.Offset, hello.Page.Bytes)
	return memory, errors.Join(err, seg.Close())
}
