package verbs

import "github.com/ibrun/ibrun/verbs/internal/ib"

// PD is a protection domain: queue pairs use the memory regions of their own domain only. Its methods may be called by any
// goroutine at any time.
type PD struct {
	base
	ib ib.PD
}

// AllocPD allocates a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	const op = "allocate a protection domain"
	pd := &PD{base: c.newBase(kindPD)}
	err := pd.open(op, pd.Close, func() (err error) {
		pd.ib, err = c.ib.AllocPD()
		return err
	})
	if err != nil {
		return nil, err
	}
	return pd, nil
}

// Close deallocates the domain. It returns [ErrBusy] while an object in it is open. A second Close does nothing.
func (pd *PD) Close() error { return pd.shutdown(pd.ib.Close) }
