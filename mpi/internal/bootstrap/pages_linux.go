package bootstrap

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/shm"
)

// mapPages maps the memory that ibrun has for this process, for as long as it lives.
func (p *Process) mapPages(info *ranklink.RankInfo) error {
	if info == nil || info.Page == nil {
		return nil
	}
	seg, err := shm.Open(info.Page.FD)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		of   *ranklink.FileRange
		to   *[]byte
		what string
	}{{info.Page, &p.Counters, "counters"}, {info.Trace, &p.Trace, "a trace"}, {info.Profile, &p.Profile, "profiles"}} {
		if m.of == nil {
			continue
		}
		b, errMap := seg.Map(m.of.Offset, m.of.Bytes)
		if *m.to = b; errMap != nil {
			err = errors.Join(err, fmt.Errorf("memory for %s: %w", m.what, errMap))
		}
	}
	return errors.Join(err, seg.Close())
}
