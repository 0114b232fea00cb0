{{/* What the schema cannot see: values that do not fit together. All of them in one message. */}}
{{- define "vedette.checks" -}}
{{- $wrong := concat (include "vedette.checks.forms" . | fromYamlArray) (include "vedette.checks.agent" . | fromYamlArray) (include "vedette.checks.scaling" . | fromYamlArray) (include "vedette.checks.service" . | fromYamlArray) -}}
{{- if $wrong -}}
{{- fail (printf "\n\nThese values do not work:\n- %s\n" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end }}

{{/*
Values whose form matters, with what is allowed in words: a pattern of the schema would be shown instead,
together with the value, which may be secret.
*/}}
{{- define "vedette.checks.forms" -}}
{{- $wrong := list -}}
{{- $url := "^https?://[^/ ]+" -}}
{{- $urlText := "an address such as https://monitoring.example is allowed" -}}
{{- $size := "^[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE])?$" -}}
{{- $sizeText := "a size such as 8Gi is allowed" -}}
{{- $digest := "^sha256:[0-9a-f]{64}$" -}}
{{- $digestText := "sha256: and 64 hexadecimal digits are allowed" -}}
{{- $interval := "^[0-9]+(ms|s|m|h)$" -}}
{{- $intervalText := "a duration such as 30s is allowed" -}}
{{- $forms := list
  (list "agent.serviceUrl" $url $urlText)
  (list "agent.location" "^[a-zA-Z0-9-]{1,30}$" "the slug of a private location is allowed: at most 30 letters, digits and hyphens")
  (list "apiKeySecret.apiKey" "^pl_[A-Za-z0-9_-]{8,}$" "the key of a private location is allowed: it starts with pl_ (an API key of the account is another thing)")
  (list "image.digest" $digest $digestText)
  (list "persistence.size" $size $sizeText)
  (list "proxy.httpsProxy" $url "an address such as http://proxy.example:3128 is allowed")
  (list "proxy.httpProxy" $url "an address such as http://proxy.example:3128 is allowed")
  (list "extraCaCerts" "-----BEGIN CERTIFICATE-----" "PEM text is allowed, with -----BEGIN CERTIFICATE-----")
  (list "chromiumSandbox.localhostProfile" "^[^/.][^/]*(/[^/.][^/]*)*$" "a path below the kubelet's seccomp folder is allowed, such as vedette/chromium.json")
  (list "keda.prometheus.serverAddress" $url $urlText)
  (list "metrics.podMonitor.interval" $interval $intervalText)
  (list "metrics.serviceMonitor.interval" $interval $intervalText)
  (list "service.publicUrl" $url $urlText)
  (list "service.image.digest" $digest $digestText)
  (list "service.database.url" "^postgres(ql)?://.+" "an address such as postgres://user:password@host/name is allowed")
  (list "service.blobStore" "^(file:|s3://).+" "file:FOLDER or s3://BUCKET is allowed")
  (list "service.minAgentVersion" "^[0-9]+[.][0-9]+[.][0-9]+$" "a version such as 1.2.3 is allowed")
  (list "service.metricsToken.value" "^[!-~]{8,200}$" "8 to 200 printable characters without spaces are allowed")
  (list "service.bootstrap.apiKey" "^[!-~]{16,200}$" "16 to 200 printable characters without spaces are allowed")
  (list "service.bootstrap.accountId" "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" "a UUID is allowed")
  (list "service.persistence.size" $size $sizeText)
  (list "service.serviceMonitor.interval" $interval $intervalText)
-}}
{{- range $forms -}}
{{- $value := $.Values -}}
{{- range splitList "." (index . 0) }}{{ $value = index $value . }}{{ end -}}
{{- if and $value (not (regexMatch (index . 1) $value)) -}}
{{- $wrong = append $wrong (printf "%s: %s" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end }}

{{- define "vedette.checks.agent" -}}
{{- $wrong := list -}}
{{- $env := dict -}}
{{- range $name, $_ := .Values.env }}{{ $_ := set $env $name true }}{{ end -}}
{{- range .Values.extraEnv }}{{ $_ := set $env .name true }}{{ end -}}
{{- if and .Values.agent.enabled (not .Values.extraEnvFrom) -}}
{{- if not (or (include "vedette.serviceUrl" .) (hasKey $env "AGENT_SERVICE_URL")) -}}
{{- $wrong = append $wrong "agent.serviceUrl is empty: set it to the address of the service, such as https://monitoring.example, or install the service with service.enabled=true" -}}
{{- end -}}
{{- if not (or .Values.apiKeySecret.apiKey (not .Values.apiKeySecret.create) (hasKey $env "API_KEY") (hasKey $env "API_KEY_FILE")) -}}
{{- $wrong = append $wrong "apiKeySecret.apiKey is empty: set it to the key of the private location (pl_…), or name a Secret that exists with apiKeySecret.create=false and apiKeySecret.name; for the service alone set agent.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- with .Values.apiKeySecret -}}
{{- if and (not .create) (not .name) (not (hasKey $env "API_KEY")) (not (hasKey $env "API_KEY_FILE")) -}}
{{- $wrong = append $wrong "apiKeySecret.name is empty: with apiKeySecret.create=false it names the Secret that holds the key" -}}
{{- end -}}
{{- end -}}
{{- range $name, $instead := dict "AGENT_DRAIN_TIMEOUT" "agent.drainTimeoutSeconds, which terminationGracePeriodSeconds follows" "AGENT_HEALTH_PORT" "metrics.port, which the probes follow" "AGENT_DATA_DIR" "persistence, which the volume follows" -}}
{{- if hasKey $env $name -}}
{{- $wrong = append $wrong (printf "env.%s cannot be set there: set %s" $name $instead) -}}
{{- end -}}
{{- end -}}
{{- $grace := include "vedette.gracePeriod" . | int -}}
{{- $least := add (include "vedette.drainTimeout" . | int) (include "vedette.drainMargin" . | int) | int -}}
{{- if lt $grace $least -}}
{{- $wrong = append $wrong (printf "terminationGracePeriodSeconds is %d, too short for agent.drainTimeoutSeconds and the %s s after it: set at least %d, or only one of the two" $grace (include "vedette.drainMargin" .) $least) -}}
{{- end -}}
{{- if and .Values.extraCaCerts (or .Values.extraCaCertsFrom.configMap .Values.extraCaCertsFrom.secret) -}}
{{- $wrong = append $wrong "extraCaCerts and extraCaCertsFrom are both set: set one of them" -}}
{{- end -}}
{{- if and .Values.extraCaCertsFrom.configMap .Values.extraCaCertsFrom.secret -}}
{{- $wrong = append $wrong "extraCaCertsFrom.configMap and extraCaCertsFrom.secret are both set: set one of them" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled -}}
{{- $wrong = append $wrong "metrics.podMonitor and metrics.serviceMonitor are both enabled: every agent would be scraped twice; enable one of them" -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end }}

{{- define "vedette.checks.scaling" -}}
{{- $wrong := list -}}
{{- $byQueue := or .Values.keda.enabled (and .Values.autoscaling.enabled .Values.autoscaling.queue.enabled) -}}
{{- if and .Values.keda.enabled .Values.autoscaling.enabled -}}
{{- $wrong = append $wrong "autoscaling and keda are both enabled: they would undo one another's work; enable one of them" -}}
{{- end -}}
{{- if and $byQueue (not .Values.agent.location) (not (and .Values.keda.enabled .Values.keda.prometheus.query)) -}}
{{- $wrong = append $wrong "agent.location is empty: to scale by its queue, set it to the slug of the private location" -}}
{{- end -}}
{{- range $name, $scaler := dict "autoscaling" .Values.autoscaling "keda" .Values.keda -}}
{{- if and $scaler.enabled (gt (int $scaler.minReplicas) (int $scaler.maxReplicas)) -}}
{{- $wrong = append $wrong (printf "%s.minReplicas is more than %s.maxReplicas" $name $name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (not (or .targetCPUUtilizationPercentage .targetMemoryUtilizationPercentage .queue.enabled .metrics)) -}}
{{- $wrong = append $wrong "autoscaling has nothing to go by: set targetCPUUtilizationPercentage, queue.enabled or metrics" -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end }}

{{- define "vedette.checks.service" -}}
{{- $wrong := list -}}
{{- $service := .Values.service -}}
{{- if $service.enabled -}}
{{- if and (gt (int $service.replicaCount) 1) (not (include "vedette.postgres" .)) -}}
{{- $wrong = append $wrong "service.replicaCount is more than 1, but the embedded database has one user: set service.database.url or service.database.existingSecret" -}}
{{- else if and (gt (int $service.replicaCount) 1) (not (include "vedette.service.canShare" .)) -}}
{{- $wrong = append $wrong "service.replicaCount is more than 1, but each copy would keep its own artifacts: set service.blobStore, or service.persistence.accessModes={ReadWriteMany}" -}}
{{- end -}}
{{- range include "vedette.service.secrets" . | fromYamlArray -}}
{{- if and .value .existingSecret -}}
{{- $wrong = append $wrong (printf "%s and the existingSecret beside it are both set: set one of them" .path) -}}
{{- end -}}
{{- end -}}
{{- if and $service.ingress.enabled (not $service.ingress.host) -}}
{{- $wrong = append $wrong "service.ingress.host is empty: set it to the name under which the service is reached" -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end }}
