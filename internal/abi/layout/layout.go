// Package layout holds a package of kernel or library structs against the C compiler's view of the headers. It is for tests:
//
//	func TestLayout(t *testing.T) { layout.Check(t, "rdma/rdma_user_rxe.h") }
//
// It reads the source of the package in the current directory, and what to compare from the comments there:
//
//	// CreateCQ is struct ib_uverbs_create_cq.          size, and every field
//	// RDMA is wr.rdma of struct rxe_send_wr.           a part of a struct
//	// CQ is the head of struct ibv_cq, up to mutex.    what stands before that field
//	// PortAttr is the start of struct ibv_port_attr.   a struct that grows with versions
//	type CreateCQ struct {
//		Response uint64 // response: offset and size
//		_        [4]byte
//
//	const Version = 6 // IB_USER_VERBS_ABI_VERSION: value; any expression in C up to the end or the colon
//	const Key = "pmix.lpeers" // PMIX_LOCAL_PEERS: the same bytes
//
// A struct, a named field or an exported constant that does not say so is an error, and so is a struct whose padding is not
// written out or that amd64 and arm64 lay out differently.
//
// The headers are those that are installed. The environment variable IBRUN_ABI_HEADERS lists folders of other versions, separated
// by colons, such as usr/include of unpacked packages. The test then compares with each version.
package layout

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

// Check compares the package in the current directory with the headers. A string that begins with -I is a directory where the
// compiler looks for them too. Without a compiler or the headers it skips the test, and fails it in CI.
func Check(t *testing.T, headers ...string) {
	t.Helper()
	src, err := load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	src.check(t, headers)
	for _, dir := range filepath.SplitList(os.Getenv("IBRUN_ABI_HEADERS")) {
		if _, err := os.Stat(filepath.Join(dir, headers[0])); err == nil {
			t.Run(dir, func(t *testing.T) { src.check(t, append([]string{"-I" + dir}, headers...)) })
		} else if !errors.Is(err, fs.ErrNotExist) { // the headers of another library may be there
			t.Error(err)
		}
	}
}

// check compares the package with one version of the headers.
func (s *source) check(t *testing.T, headers []string) {
	t.Helper()
	claims, breaches := s.claims()
	c := compiler{dir: t.TempDir()}
	for _, h := range headers {
		if strings.HasPrefix(h, "-I") {
			c.flags = append(c.flags, h)
		} else {
			c.headers = append(c.headers, h)
		}
	}
	if err := c.works(); err != nil {
		for _, b := range breaches {
			t.Error(b)
		}
		needtest.Missing(t, "%v", err)
	}
	more, err := c.compare(claims)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(breaches, more...) {
		t.Error(b)
	}
	if len(claims) == 0 {
		t.Error("the package has nothing to compare")
	}
}

// claim is one number that C must agree on.
type claim struct {
	what string // as in the message
	expr string // in C
	want string // in Go, decimal
	less bool   // Go's may be less
}

var (
	structDoc = regexp.MustCompile(`^\w+ is (the (?:head|start) of )?(?:([\w.]+) of )?(struct \w+)(?:, up to (\w+))?`)
	fieldName = regexp.MustCompile(`^[a-z_][\w.]*`)
)

// claims collects what the comments say, and what is wrong without asking C.
func (s *source) claims() (cs []claim, breaches []string) {
	for _, f := range s.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, sp := range g.Specs {
				var c []claim
				var err error
				switch sp := sp.(type) {
				case *ast.TypeSpec:
					c, err = s.structClaims(g, sp)
				case *ast.ValueSpec:
					c, err = s.constClaims(g, sp)
				}
				cs = append(cs, c...)
				if err != nil {
					breaches = append(breaches, fmt.Sprintf("%s: %v", s.fset.Position(sp.Pos()), err))
				}
			}
		}
	}
	return cs, breaches
}

func (s *source) constClaims(g *ast.GenDecl, v *ast.ValueSpec) ([]claim, error) {
	if g.Tok != token.CONST || !v.Names[0].IsExported() {
		return nil, nil
	}
	name := v.Names[0].Name
	expr, _, _ := strings.Cut(strings.TrimSpace(v.Comment.Text()), ":")
	if expr == "" {
		return nil, fmt.Errorf("constant %s does not say its name in C", name)
	}
	value := s.info.Defs[v.Names[0]].(*types.Const).Val()
	if value.Kind() == constant.String {
		return []claim{{what: name, expr: fmt.Sprintf("strcmp(%s, %s)", expr, value.ExactString()), want: "0"}}, nil
	}
	return []claim{{what: name, expr: expr, want: constant.ToInt(value).ExactString()}}, nil
}

func (s *source) structClaims(g *ast.GenDecl, sp *ast.TypeSpec) ([]claim, error) {
	fields, ok := sp.Type.(*ast.StructType)
	if !ok || !sp.Name.IsExported() {
		return nil, nil
	}
	doc := sp.Doc.Text()
	if doc == "" {
		doc = g.Doc.Text()
	}
	m := structDoc.FindStringSubmatch(doc)
	if m == nil {
		return nil, fmt.Errorf("%s does not say which struct of C it is", sp.Name.Name)
	}
	st := s.info.Defs[sp.Name].Type().Underlying().(*types.Struct)
	if err := sameEverywhere(st); err != nil {
		return nil, fmt.Errorf("%s: %w", sp.Name.Name, err)
	}
	ctype := m[3]
	if m[2] != "" {
		ctype = fmt.Sprintf("__typeof__(((%s *)0)->%s)", m[3], m[2])
	}
	sizes := types.SizesFor("gc", runtime.GOARCH)
	size := claim{what: sp.Name.Name + ": size", expr: "sizeof(" + ctype + ")", want: fmt.Sprint(sizes.Sizeof(st))}
	switch m[1] {
	case "the start of ":
		size.less = true
	case "the head of ":
		size.what, size.expr, size.less = sp.Name.Name+": size", fmt.Sprintf("offsetof(%s, %s)", ctype, m[4]), true
	}
	cs := []claim{size}
	offsets := sizes.Offsetsof(vars(st))
	i := 0
	for _, f := range fields.Fields.List {
		for _, n := range f.Names {
			if n.Name != "_" {
				c := fieldName.FindString(f.Comment.Text())
				if c == "" || len(f.Names) > 1 {
					return nil, fmt.Errorf("%s.%s does not say its name in C", sp.Name.Name, n.Name)
				}
				what := sp.Name.Name + "." + n.Name
				cs = append(cs,
					claim{what: what + ": offset", expr: fmt.Sprintf("offsetof(%s, %s)", ctype, c), want: fmt.Sprint(offsets[i])},
					claim{what: what + ": size", expr: fmt.Sprintf("sizeof(((%s *)0)->%s)", ctype, c),
						want: fmt.Sprint(sizes.Sizeof(st.Field(i).Type()))})
			}
			i++
		}
	}
	return cs, nil
}

// sameEverywhere says whether a struct has padding of the compiler's, or different layouts.
func sameEverywhere(st *types.Struct) error {
	var all [2][]int64
	for i, arch := range []string{"amd64", "arm64"} {
		sizes := types.SizesFor("gc", arch)
		end := int64(0)
		offsets := sizes.Offsetsof(vars(st))
		for f, off := range offsets {
			if off != end {
				return fmt.Errorf("%d bytes of padding before %s are not written out", off-end, st.Field(f).Name())
			}
			end = off + sizes.Sizeof(st.Field(f).Type())
		}
		if size := sizes.Sizeof(st); size != end {
			return fmt.Errorf("%d bytes of padding at the end are not written out", size-end)
		}
		all[i] = append(offsets, end)
	}
	if fmt.Sprint(all[0]) != fmt.Sprint(all[1]) {
		return fmt.Errorf("amd64 has the offsets %v, arm64 %v", all[0], all[1])
	}
	return nil
}

func vars(st *types.Struct) []*types.Var {
	vs := make([]*types.Var, st.NumFields())
	for i := range vs {
		vs[i] = st.Field(i)
	}
	return vs
}

// compiler asks the C compiler.
type compiler struct {
	dir     string   // for its files
	headers []string // as between < and >
	flags   []string
}

// packages are Debian's packages of the headers.
const packages = "libc6-dev linux-libc-dev libibverbs-dev libpmix-dev"

// works says why nothing can be asked.
func (c compiler) works() error {
	if _, err := exec.LookPath("gcc"); err != nil {
		return fmt.Errorf("a C compiler to compare with: apt-get install gcc %s: %w", packages, err)
	}
	if _, err := c.run("int main(void) { return 0; }\n"); err != nil {
		return fmt.Errorf("headers to compare with: apt-get install %s: %w", packages, err)
	}
	return nil
}

// compare returns what C says otherwise.
func (c compiler) compare(claims []claim) (breaches []string, err error) {
	var text strings.Builder
	text.WriteString("int main(void) {\n")
	for _, cl := range claims {
		fmt.Fprintf(&text, "\tprintf(\"%%lld\\n\", (long long)(%s));\n", cl.expr)
	}
	text.WriteString("\treturn 0;\n}\n")
	out, err := c.run(text.String())
	if err != nil {
		return nil, err
	}
	got := strings.Fields(out)
	if len(got) != len(claims) {
		return nil, fmt.Errorf("asked for %d numbers, got %d", len(claims), len(got))
	}
	for i, cl := range claims {
		if got[i] == cl.want || cl.less && number(cl.want) <= number(got[i]) {
			continue
		}
		breaches = append(breaches, fmt.Sprintf("%s: %s in Go, but %s is %s", cl.what, cl.want, cl.expr, got[i]))
	}
	return breaches, nil
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // claims and answers are both printed numbers
	}
	return n
}

// run compiles a program and returns what it prints.
func (c compiler) run(text string) (string, error) {
	head := "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n"
	for _, h := range c.headers {
		head += "#include <" + h + ">\n"
	}
	src, bin := filepath.Join(c.dir, "layout.c"), filepath.Join(c.dir, "layout")
	if err := os.WriteFile(src, []byte(head+text), 0o644); err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cc := exec.Command("gcc", append(c.flags, "-o", bin, src)...)
	cc.Stderr = &stderr
	if err := cc.Run(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, stderr.String())
	}
	out, err := exec.Command(bin).Output()
	return string(out), err
}
