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

func TestTheDescriptionOfAnError(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"does not contain the URL of the request": {
			&url.Error{Op: "Get", URL: "http://host/?signature=hunter2", Err: errors.New("connection refused")},
			"connection refused",
		},
		"does not contain queries": {
			errors.New(`cannot parse "http://host/a?signature=hunter2" or 'http://host/?key=hunter2'`),
			`cannot parse "http://host/a?..." or 'http://host/?...'`,
		},
		"does not contain a secret, even if the text is truncated": {
			errors.New(strings.Repeat("c", maxDescription-4) + " hunter2"), strings.Repeat("c", maxDescription-4) + " ***",
		},
		"does not contain the local port, which is different each time": {
			errors.New("read tcp 10.0.0.5:43210->10.0.0.9:9000: connection reset by peer"),
			"read tcp 10.0.0.9:9000: connection reset by peer",
		},
		"has one line": {errors.New("a\nb\tc\x1b[31md"), "a b c [31md"},
		"has a maximum length": {
			errors.New(strings.Repeat("é", maxDescription)), strings.Repeat("é", maxDescription/2) + "...",
		},
		"contains the code of an S3 error": {
			minio.ErrorResponse{Code: "AccessDenied", Message: "Access Denied."}, "AccessDenied: Access Denied.",
		},
		"explains a timeout": {fmt.Errorf("reading: %w", os.ErrDeadlineExceeded), "the server has sent nothing for 30s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(tc.err, "", "hunter2")); diff != "" {
				t.Errorf("unexpected description (-want +got):\n%s", diff)
			}
		})
	}
}
