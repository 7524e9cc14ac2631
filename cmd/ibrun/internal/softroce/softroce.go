// Package softroce is `ibrun soft-roce`: it makes, shows and removes the RDMA devices of the kernel's Soft-RoCE
// driver.
//
//	ibrun soft-roce up eth0       makes rxe0 on eth0 and prints its name
//	ibrun soft-roce show          lists all of them
//	ibrun soft-roce down rxe0     removes it
package softroce

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/ibrun/ibrun/soft-roce/link"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `usage: ibrun soft-roce up NETDEV [NAME]   make a Soft-RoCE device on a network device; NAME is the first free rxeN
       ibrun soft-roce down NAME          remove it
       ibrun soft-roce show               list all
It takes root, and a kernel with the driver rdma_rxe. docs/soft-roce.md tells more.
`

// links is package link, or what stands for it in tests.
type links struct {
	add    func(name, netdev string) error
	remove func(name string) error
	list   func() ([]link.Link, error)
}

// Main is `ibrun soft-roce args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	return run(args, stdout, stderr, links{link.Add, link.Delete, link.List})
}

// errUsage says that the words are none that the command knows.
var errUsage = errors.New("not understood")

func run(args []string, stdout, stderr io.Writer, l links) int {
	err := errUsage
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "help" || slices.ContainsFunc(args, asksHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case word == "up" && (len(args) == 2 || len(args) == 3):
		err = l.up(args[1], args[2:], stdout)
	case word == "down" && len(args) == 2:
		err = l.remove(args[1])
	case word == "show" && len(args) == 1:
		err = l.show(stdout)
	}
	if errors.Is(err, errUsage) {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun soft-roce: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// asksHelp tells a flag from the name of a device.
func asksHelp(word string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, word) }

// most is how many names are tried. More devices than that nobody has.
const most = 1000

// up makes a device under the name that was given, or the first rxeN that is free, and prints the name.
func (l links) up(netdev string, name []string, stdout io.Writer) error {
	if len(name) == 1 {
		if err := l.add(name[0], netdev); err != nil {
			return err
		}
		fmt.Fprintln(stdout, name[0])
		return nil
	}
	for n := range most {
		free := fmt.Sprintf("rxe%d", n)
		err := l.add(free, netdev)
		if err == nil {
			fmt.Fprintln(stdout, free)
		}
		if !errors.Is(err, link.ErrNameInUse) {
			return err
		}
	}
	return fmt.Errorf("all names from rxe0 to rxe%d are in use", most-1)
}

// show lists all devices.
func (l links) show(stdout io.Writer) error {
	all, err := l.list()
	if err != nil || len(all) == 0 {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tNETDEV\tSTATE")
	for _, d := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.Name, d.Netdev, d.State)
	}
	return w.Flush()
}
