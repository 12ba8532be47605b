package sidecar

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
)

func TestErrorsAreDescribedForHumans(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"without the address that the source has already": {
			&url.Error{Op: "Get", URL: "http://host/?signature=hunter2", Err: errors.New("connection refused")},
			"connection refused",
		},
		"without queries": {
			errors.New(`cannot parse "http://host/a?signature=hunter2" or 'http://host/?key=hunter2'`),
			`cannot parse "http://host/a?..." or 'http://host/?...'`,
		},
		"without secrets, whole or cut off": {
			errors.New(strings.Repeat("c", maxDescription-4) + " hunter2"), strings.Repeat("c", maxDescription-4) + " ***",
		},
		"without what is another each time": {
			errors.New("read tcp 10.0.0.5:43210->10.0.0.9:9000: connection reset by peer"),
			"read tcp 10.0.0.9:9000: connection reset by peer",
		},
		"in one line": {errors.New("a\nb\tc\x1b[31md"), "a b c [31md"},
		"not at any length": {
			errors.New(strings.Repeat("é", maxDescription)), strings.Repeat("é", maxDescription/2) + "...",
		},
		"with S3's own word": {
			minio.ErrorResponse{Code: "AccessDenied", Message: "Access Denied."}, "AccessDenied: Access Denied.",
		},
		"if nothing was sent": {fmt.Errorf("reading: %w", os.ErrDeadlineExceeded), "the server has sent nothing for 30s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(tc.err, "", "hunter2")); diff != "" {
				t.Errorf("unexpected description (-want +got):\n%s", diff)
			}
		})
	}
}
