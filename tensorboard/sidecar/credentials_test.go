package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretIn creates a folder with the files of a mounted Secret.
func secretIn(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	put(t, folder, files)
}

func TestReadCredentialsAcceptsBothFormsOfASecret(t *testing.T) {
	tests := map[string]struct {
		files     map[string]string
		want      credentials
		wantError string
	}{
		"the keys can be the environment variables of the AWS tools": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": "http://minio.store:9000",
			},
			want: credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"values can end with a newline, and optional keys are used": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key\n", "AWS_SECRET_ACCESS_KEY": "hunter2\n", "AWS_ENDPOINT_URL": "https://s3.example/\n",
				"AWS_SESSION_TOKEN": "hunter3\n", "AWS_REGION": "eu-west-1\n",
			},
			want: credentials{
				host: "s3.example", https: true, accessKey: "key", secretKey: "hunter2", sessionToken: "hunter3",
				region: "eu-west-1",
			},
		},
		"the key can be the configuration of s3cmd": {
			files: map[string]string{
				".s3cfg": "[default]\nhost_base = minio.store:9000\naccess_key = key\nsecret_key = hunter2\nuse_https = False\n",
			},
			want: credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"the configuration of s3cmd needs no section, and HTTPS is the default": {
			files: map[string]string{
				".s3cfg": "host_base=s3.example\naccess_key=key\nsecret_key=hunter2\nbucket_location = eu-west-3\n" +
					"[other]\naccess_key=other\n",
			},
			want: credentials{host: "s3.example", https: true, accessKey: "key", secretKey: "hunter2", region: "eu-west-3"},
		},
		"values in the configuration of s3cmd are literal": {
			files: map[string]string{
				".s3cfg": "[default]\nwhat is this\nhost_base = s3.example\naccess_key = k#e;y\n" +
					"secret_key = hu%(n)s #te=r2 ;\\\naccess_token = hunter3\nbucket_location = US\nuse_https = Yes\n",
			},
			want: credentials{
				host: "s3.example", https: true, accessKey: "k#e;y", secretKey: `hu%(n)s #te=r2 ;\`, sessionToken: "hunter3",
			},
		},
		"the host in the configuration of s3cmd can have a scheme": {
			files: map[string]string{".s3cfg": "host_base = http://minio.store:9000\naccess_key = key\nsecret_key = hunter2\n"},
			want:  credentials{host: "minio.store:9000", accessKey: "key", secretKey: "hunter2"},
		},
		"a missing Secret is an error": {
			wantError: "the Secret name is missing, or has neither .s3cfg " +
				"nor AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL",
		},
		"a Secret without any of the keys is an error": {
			files:     map[string]string{"password": "hunter2"},
			wantError: "the Secret name is missing, or has neither .s3cfg nor",
		},
		"a missing key is an error": {
			files:     map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_ENDPOINT_URL": "http://minio.store:9000"},
			wantError: "the Secret name lacks AWS_SECRET_ACCESS_KEY",
		},
		"an empty key is an error": {
			files:     map[string]string{"AWS_ACCESS_KEY_ID": "\n", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": ""},
			wantError: "the Secret name lacks AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL",
		},
		"a missing field in the configuration of s3cmd is an error": {
			files:     map[string]string{".s3cfg": "[default]\naccess_key = key\n"},
			wantError: ".s3cfg of the Secret name: lacks host_base, secret_key",
		},
		"a configuration of s3cmd that is not an INI file is an error": {
			files:     map[string]string{".s3cfg": "[default\nhunter2"},
			wantError: ".s3cfg of the Secret name:",
		},
		"an endpoint without a scheme is an error": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": "minio.store:9000",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must look like http://<host>:<port>",
		},
		"an endpoint with a user and a path is an error": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2",
				"AWS_ENDPOINT_URL": "http://me:hunter3@minio.store/path",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must have a host and a port only",
		},
		"a secret key in place of the endpoint is an error without the key": {
			files: map[string]string{
				"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "http://x", "AWS_ENDPOINT_URL": "hunter2%",
			},
			wantError: "AWS_ENDPOINT_URL of the Secret name must look like",
		},
		"a folder in place of a file is an error": {
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
					t.Errorf("the error contains a secret: %v", err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(credentials{})); diff != "" {
				t.Errorf("unexpected credentials (-want +got):\n%s", diff)
			}
		})
	}
}
