package deepspeed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// NewSecret returns a key pair for a job, by which its workers know each other: whoever has the key is one of them. It is the key of the
// servers and of the clients, and the only one that the servers let in.
func (deepspeed) NewSecret(job *v1beta1.DeepSpeedJob) (*corev1.Secret, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName(job)},
		Type:       corev1.SecretTypeSSHAuth,
		Immutable:  new(true),
		Data:       map[string][]byte{corev1.SSHAuthPrivateKey: pem.EncodeToMemory(block)},
	}, nil
}

// secretName is the name of the job's Secret. With the UID of the job in it, it is no other's.
func secretName(job *v1beta1.DeepSpeedJob) string {
	return job.Name + "-ssh-" + string(job.UID)
}
