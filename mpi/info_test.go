package mpi_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

func TestInfo(t *testing.T) {
	var i mpi.Info
	key, value := strings.Repeat("k", mpi.MaxInfoKey), strings.Repeat("v", mpi.MaxInfoValue)
	err := errors.Join(i.Set("b", "1"), i.Set("a", "2"), i.Set("b", "3"), i.Set(key, value))
	d := i.Dup()
	err = errors.Join(err, d.Delete("b"), d.Set("c", ""))
	var all string
	for k, v := range d.All() {
		all += k + "=" + v + " "
	}
	if v, ok := i.Get("b"); err != nil || !ok || v != "3" || i.Len() != 3 || all != "a=2 "+key+"="+value+" c= " {
		t.Errorf("%q, %v, %d keys, %s, %v", v, ok, i.Len(), all, err)
	}
	if k, err := i.Nth(1); err != nil || k != "a" {
		t.Errorf("%q, %v", k, err)
	}
	var none *mpi.Info
	nth := func(i *mpi.Info, n int) error { _, err := i.Nth(n); return err }
	for name, c := range map[string]struct {
		err   error
		class mpi.Class
	}{
		"long key":      {i.Set(key+"k", "v"), mpi.ErrInfoKey},
		"empty key":     {i.Set("", "v"), mpi.ErrInfoKey},
		"long value":    {i.Set("k", value+"v"), mpi.ErrInfoValue},
		"no such key":   {i.Delete("z"), mpi.ErrInfoNoKey},
		"key -1":        {nth(&i, -1), mpi.ErrArg},
		"key 3 of 3":    {nth(&i, 3), mpi.ErrArg},
		"set of nil":    {none.Set("k", "v"), mpi.ErrInfo},
		"delete of nil": {none.Delete("k"), mpi.ErrInfo},
		"key of nil":    {nth(none, 0), mpi.ErrInfo},
	} {
		if err := ofClass(c.err, c.class); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range none.All() {
		t.Error("nil has a key")
	}
	if _, ok := none.Get("k"); ok || none.Len() != 0 || none.Dup().Set("k", "v") != nil {
		t.Error("nil is not empty, or its duplicate cannot be set")
	}
}

func TestInfoEnv(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		i := p.InfoEnv()
		var errs []error
		for key, want := range map[string]string{"command": os.Args[0], "maxprocs": "3", "thread_level": "MPI_THREAD_MULTIPLE"} {
			v, ok := i.Get(key)
			errs = append(errs, check(ok && v == want, "%s=%s, want %s", key, v, want))
		}
		for _, key := range []string{"host", "arch", "wdir"} {
			v, ok := i.Get(key)
			errs = append(errs, check(ok && v != "", "%s=%s", key, v))
		}
		errs = append(errs, i.Set("host", "elsewhere"), i.Delete("arch"))
		host, _ := p.InfoEnv().Get("host")
		_, ok := p.InfoEnv().Get("arch")
		return errors.Join(append(errs, check(host != "elsewhere" && ok, "changes of one show in another"))...)
	})
}
