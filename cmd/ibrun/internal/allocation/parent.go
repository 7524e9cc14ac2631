package allocation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/internal/pmi"
)

// checkParent returns an error if another launcher has started this ibrun as one of several processes: each of them would start
// the whole job. A rank of ibrun may start jobs.
func checkParent(o Options, lookup func(string) string) error {
	if lookup("IBRUN_FD") != "" {
		return nil
	}
	l := pmi.FindLauncher(lookup, o.Terminal)
	if l == nil || l.Evidence == "PMIX_RANK="+lookup("PMIX_RANK") { // a rank without a namespace is of no launcher
		return nil
	}
	many, number := "several", "N"
	if l.Size > 0 {
		number = fmt.Sprint(l.Size)
		many = number
	}
	program := cmp.Or(strings.Join(o.Command[:min(len(o.Command), 1)], " "), "PROGRAM")
	return fmt.Errorf("%s has started %s processes of ibrun (%s), and each would start a job; "+
		"write: ibrun -n %s %s (without %[1]s); or, for a job on this host in each process: ibrun --hosts localhost %[5]s",
		l.Name, many, l.Evidence, number, program)
}
