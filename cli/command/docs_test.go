package command

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestDocs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    string // a part of the output
		wantErr string
	}{
		"without a page, the pages are listed": {
			args: []string{"docs"}, want: "\noperate/troubleshooting     Troubleshooting the controllers\n",
		},
		"a page is printed": {args: []string{"docs", "troubleshooting"}, want: "# Troubleshooting\n"},
		"a section is printed": {
			args: []string{"docs", "operate/troubleshooting", "the-controllers"}, want: "## The controllers\n",
		},
		"an unknown section is an error": {
			args: []string{"docs", "kueue", "none"}, wantErr: `page kueue has no section "none"`,
		},
		"the shell completes pages with their titles": {
			args: []string{"__complete", "docs", "operate/tr"},
			want: "operate/troubleshooting\tTroubleshooting the controllers\n:4\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := New(genericiooptions.IOStreams{Out: &out, ErrOut: &bytes.Buffer{}})
			cmd.SetArgs(tc.args)
			err := cmd.ExecuteContext(t.Context())
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("the output is %q, want %q", out.String(), tc.want)
			}
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("the error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}
