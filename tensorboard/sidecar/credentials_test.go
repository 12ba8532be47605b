package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretIn makes a folder look like a mounted Secret.
func secretIn(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	put(t, folder, files)
}

func TestReadCredentials(t *testing.T) {
	tests := map[string]struct {
		files     map[string]string
		want      credentials
		wantError string
	}{
		"as the AWS tools take them": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": "http://minio.store:9000",
			},
			want: credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"with all that is optional, and with line ends": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key\n", "AWS_SECRET_ACCESS_KEY": "hunter2\n", "AWS_ENDPOINT_URL": "https://s3.example/\n",
				"AWS_SESSION_TOKEN": "hunter3\n", "AWS_REGION": "eu-west-1\n",
			},
			want: credentials{
				host: "s3.example", https: true, accessKey: "key", secretKey: "hunter2", sessionToken: "hunter3",
				region: "eu-west-1",
			},
		},
		"as s3cmd takes them": {
			files: map[string]string{
				".s3cfg": "[default]\nhost_base = minio.store:9000\naccess_key = key\nsecret_key = hunter2\nuse_https = False\n",
			},
			want: credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"without a section, with another one, and encrypted unless it says otherwise": {
			files: map[string]string{
				".s3cfg": "host_base=s3.example\naccess_key=key\nsecret_key=hunter2\nbucket_location = eu-west-3\n[other]\naccess_key=other\n",
			},
			want: credentials{host: "s3.example", https: true, accessKey: "key", secretKey: "hunter2", region: "eu-west-3"},
		},
		"with characters that mean something elsewhere": {
			files: map[string]string{
				".s3cfg": "[default]\nwhat is this\nhost_base = s3.example\naccess_key = k#e;y\nsecret_key = hu%(n)s #te=r2 ;\\\naccess_token = hunter3\nbucket_location = US\nuse_https = Yes\n",
			},
			want: credentials{
				host: "s3.example", https: true, accessKey: "k#e;y", secretKey: `hu%(n)s #te=r2 ;\`, sessionToken: "hunter3",
			},
		},
		"with a scheme at the host": {
			files: map[string]string{".s3cfg": "host_base = http://minio.store:9000\naccess_key = key\nsecret_key = hunter2\n"},
			want:  credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"no Secret": {
			wantError: "the Secret name is missing, or has neither .s3cfg nor AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL",
		},
		"another Secret": {
			files:     map[string]string{"password": "hunter2"},
			wantError: "the Secret name is missing, or has neither .s3cfg nor",
		},
		"a key is missing": {
			files:     map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_ENDPOINT_URL": "http://minio.store:9000"},
			wantError: "the Secret name lacks AWS_SECRET_ACCESS_KEY",
		},
		"a key is empty": {
			files:     map[string]string{"AWS_ACCESS_KEY_ID": "\n", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": ""},
			wantError: "the Secret name lacks AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL",
		},
		"s3cmd's file lacks keys": {
			files:     map[string]string{".s3cfg": "[default]\naccess_key = key\n"},
			wantError: ".s3cfg of the Secret name: lacks host_base, secret_key",
		},
		"s3cmd's file is something else": {
			files:     map[string]string{".s3cfg": "[default\nhunter2"},
			wantError: ".s3cfg of the Secret name:",
		},
		"an endpoint without a scheme": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": "minio.store:9000",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must look like http://<host>:<port>",
		},
		"an endpoint with a path": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2",
				"AWS_ENDPOINT_URL": "http://me:hunter3@minio.store/path",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must have a host and a port only",
		},
		"a secret key in the place of the endpoint": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "http://x", "AWS_ENDPOINT_URL": "hunter2%",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must look like",
		},
		"a folder in the place of a file": {
			files:     map[string]string{".s3cfg/x": "hunter2"},
			wantError: "reading the Secret name: read",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "name")
			secretIn(t, folder, tc.files)
			got, err := readCredentials(folder)
			wantError(t, err, tc.wantError)
			if err != nil {
				if strings.Contains(err.Error(), "hunter") {
					t.Errorf("the error shows a secret: %v", err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(credentials{})); diff != "" {
				t.Errorf("unexpected credentials (-want +got):\n%s", diff)
			}
		})
	}
}
