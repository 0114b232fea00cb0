{{/* What an agent needs after its drain for the last results, s: it gives them 21 and the service its bye. */}}
{{- define "vedette.drainMargin" -}}45{{- end }}

{{/* Drain limit in seconds, and the grace period that follows it or leads it. */}}
{{- define "vedette.drainTimeout" -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- if not (kindIs "invalid" .Values.agent.drainTimeoutSeconds) -}}
{{- int .Values.agent.drainTimeoutSeconds -}}
{{- else if kindIs "invalid" $grace -}}
600
{{- else -}}
{{- max 0 (sub (int $grace) (include "vedette.drainMargin" . | int)) -}}
{{- end -}}
{{- end }}

{{- define "vedette.gracePeriod" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add (include "vedette.drainTimeout" . | int) (include "vedette.drainMargin" . | int) -}}
{{- else -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end }}

{{/* Address of a service that is not of this release. */}}
{{- define "vedette.otherService" -}}
{{- $set := get .Values.env "AGENT_SERVICE_URL" -}}
{{- kindIs "string" $set | ternary $set "" | default .Values.agent.serviceUrl -}}
{{- end }}

{{- define "vedette.serviceUrl" -}}
{{- if include "vedette.otherService" . -}}
{{- include "vedette.otherService" . -}}
{{- else if .Values.service.enabled -}}
http://{{ include "vedette.service.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}
{{- end }}

{{/* Whether agents talk to the service of this release. */}}
{{- define "vedette.ownService" -}}
{{- if and .Values.service.enabled (not (include "vedette.otherService" .)) -}}true{{- end -}}
{{- end }}

{{- define "vedette.publicUrl" -}}
{{- $service := .Values.service -}}
{{- if $service.publicUrl -}}
{{- $service.publicUrl -}}
{{- else if and $service.ingress.enabled $service.ingress.host -}}
http{{ if $service.ingress.tlsSecret }}s{{ end }}://{{ $service.ingress.host }}
{{- else -}}
http://{{ include "vedette.service.name" . }}.{{ .Release.Namespace }}.svc:{{ $service.port }}
{{- end -}}
{{- end }}

{{/* Whether the service keeps its data in PostgreSQL. */}}
{{- define "vedette.postgres" -}}
{{- with .Values.service.database -}}{{- if or .url .existingSecret -}}true{{- end -}}{{- end -}}
{{- end }}

{{/* Whether the service keeps anything on its own volume: its data, or artifacts. */}}
{{- define "vedette.service.keepsFiles" -}}
{{- if not (and (include "vedette.postgres" .) .Values.service.blobStore) -}}true{{- end -}}
{{- end }}

{{/* Whether several copies of the service can be there at once. */}}
{{- define "vedette.service.canShare" -}}
{{- $volume := .Values.service.persistence -}}
{{- $shared := and $volume.enabled (or (has "ReadWriteMany" $volume.accessModes) $volume.existingClaim) -}}
{{- if and (include "vedette.postgres" .) (or (not (include "vedette.service.keepsFiles" .)) $shared) -}}true{{- end -}}
{{- end }}

{{- define "vedette.hasCa" -}}
{{- if or .Values.extraCaCerts .Values.extraCaCertsFrom.configMap .Values.extraCaCertsFrom.secret -}}true{{- end -}}
{{- end }}

{{/*
The environment of a container: (list own-entries values). An entry of `env` or `extraEnv` replaces the
chart's own of the same name, since a name that stands twice is refused by server-side apply.
*/}}
{{- define "vedette.env" -}}
{{- $values := index . 1 -}}
{{- $theirs := dict -}}
{{- range $name, $_ := $values.env }}{{ $_ := set $theirs $name true }}{{ end -}}
{{- range $values.extraEnv }}{{ $_ := set $theirs .name true }}{{ end -}}
{{- $entries := list -}}
{{- range index . 0 }}{{ if not (hasKey $theirs .name) }}{{ $entries = append $entries . }}{{ end }}{{ end -}}
{{- $last := dict -}}
{{- range $values.extraEnv }}{{ $_ := set $last .name true }}{{ end -}}
{{- range $name, $value := $values.env -}}
{{- if hasKey $last $name -}}
{{- else if kindIs "map" $value }}{{ $entries = append $entries (merge (dict "name" $name) $value) -}}
{{- else if kindIs "float64" $value }}{{ $entries = append $entries (dict "name" $name "value" (toJson $value)) -}}
{{- else }}{{ $entries = append $entries (dict "name" $name "value" (toString $value)) }}{{ end -}}
{{- end -}}
{{- toYaml (concat $entries $values.extraEnv) -}}
{{- end }}

{{- define "vedette.agent.env" -}}
{{- $agent := .Values.agent -}}
{{- $secret := dict "secretKeyRef" (dict "name" (include "vedette.apiKeySecretName" .) "key" .Values.apiKeySecret.key) -}}
{{- $own := list
  (dict "name" "API_KEY" "valueFrom" $secret)
  (dict "name" "AGENT_SERVICE_URL" "value" (include "vedette.serviceUrl" .))
  (dict "name" "AGENT_HEALTH_PORT" "value" (int .Values.metrics.port | toString))
  (dict "name" "AGENT_DATA_DIR" "value" "/var/lib/vedette")
  (dict "name" "AGENT_DRAIN_TIMEOUT" "value" (include "vedette.drainTimeout" .))
  (dict "name" "LOG_LEVEL" "value" $agent.logLevel)
  (dict "name" "LOG_FORMAT" "value" $agent.logFormat)
  (dict "name" "SANDBOX" "value" $agent.sandbox)
  (dict "name" "SCRIPT_EGRESS" "value" $agent.scriptEgress)
  (dict "name" "DEPENDENCY_CACHE" "value" .Values.suites.dependencyCache)
  (dict "name" "DEPENDENCY_CACHE_SIZE" "value" (int .Values.suites.dependencyCacheSize | toString))
  (dict "name" "BUNDLE_CACHE_SIZE" "value" (int .Values.suites.bundleCacheSize | toString))
  (dict "name" "SUITE_INSTALL_SCRIPTS" "value" (.Values.suites.installScripts | ternary "on" "off"))
-}}
{{- if not (kindIs "invalid" $agent.jobConcurrency) -}}
{{- $own = append $own (dict "name" "JOB_CONCURRENCY" "value" (int $agent.jobConcurrency | toString)) -}}
{{- end -}}
{{- if $agent.useOsDnsResolver }}{{ $own = append $own (dict "name" "USE_OS_DNS_RESOLVER" "value" "true") }}{{ end -}}
{{- with $agent.blockedTargets }}{{ $own = append $own (dict "name" "BLOCKED_TARGETS" "value" (join "," .)) }}{{ end -}}
{{- with $agent.allowedTargets }}{{ $own = append $own (dict "name" "ALLOWED_TARGETS" "value" (join "," .)) }}{{ end -}}
{{- $own = concat $own (include "vedette.proxyEnv" . | fromYamlArray) (include "vedette.caEnv" . | fromYamlArray) -}}
{{- include "vedette.env" (list $own .Values) -}}
{{- end }}

{{- define "vedette.proxyEnv" -}}
{{- $proxy := .Values.proxy -}}
{{- $own := list -}}
{{- if $proxy.existingSecret -}}
{{- range list "HTTPS_PROXY" "HTTP_PROXY" -}}
{{- $ref := dict "name" $proxy.existingSecret "key" . "optional" true -}}
{{- $own = append $own (dict "name" . "valueFrom" (dict "secretKeyRef" $ref)) -}}
{{- end -}}
{{- else -}}
{{- with $proxy.httpsProxy }}{{ $own = append $own (dict "name" "HTTPS_PROXY" "value" .) }}{{ end -}}
{{- with $proxy.httpProxy }}{{ $own = append $own (dict "name" "HTTP_PROXY" "value" .) }}{{ end -}}
{{- end -}}
{{- $direct := list -}}
{{- with $proxy.noProxy }}{{ $direct = append $direct . }}{{ end -}}
{{- if and $own (include "vedette.ownService" .) -}}
{{- $direct = append $direct (printf "%s.%s.svc" (include "vedette.service.name" .) .Release.Namespace) -}}
{{- end -}}
{{- with $direct }}{{ $own = append $own (dict "name" "NO_PROXY" "value" (join "," .)) }}{{ end -}}
{{- toYaml $own -}}
{{- end }}

{{- define "vedette.caEnv" -}}
{{- if include "vedette.hasCa" . -}}
{{- toYaml (list (dict "name" "NODE_EXTRA_CA_CERTS" "value" (printf "/etc/vedette/ca/%s" .Values.extraCaCertsFrom.key))) -}}
{{- else -}}
[]
{{- end -}}
{{- end }}

{{/* Settings of the service that are secret: from a value, or from an entry of a Secret that exists. */}}
{{- define "vedette.service.secrets" -}}
{{- with .Values.service -}}
{{- toYaml (list
  (dict "setting" "DATABASE_URL" "path" "service.database.url" "value" .database.url "existingSecret" .database.existingSecret "key" .database.key)
  (dict "setting" "METRICS_TOKEN" "path" "service.metricsToken.value" "value" .metricsToken.value "existingSecret" .metricsToken.existingSecret "key" .metricsToken.key)
  (dict "setting" "BOOTSTRAP_API_KEY" "path" "service.bootstrap.apiKey" "value" .bootstrap.apiKey "existingSecret" .bootstrap.existingSecret "key" .bootstrap.key)
) -}}
{{- end -}}
{{- end }}

{{- define "vedette.service.env" -}}
{{- $service := .Values.service -}}
{{- $own := list
  (dict "name" "SERVICE_PORT" "value" (int $service.port | toString))
  (dict "name" "SERVICE_DATA_DIR" "value" "/var/lib/vedette")
  (dict "name" "PUBLIC_URL" "value" (include "vedette.publicUrl" .))
  (dict "name" "LOG_LEVEL" "value" $service.logLevel)
  (dict "name" "LOG_FORMAT" "value" $service.logFormat)
  (dict "name" "RETENTION_RAW_DAYS" "value" (int $service.retentionRawDays | toString))
  (dict "name" "LEASE_SECONDS" "value" (int $service.leaseSeconds | toString))
  (dict "name" "QUEUE_EXPIRY_SECONDS" "value" (int $service.queueExpirySeconds | toString))
  (dict "name" "SERVICE_DRAIN_SECONDS" "value" (int $service.drainSeconds | toString))
  (dict "name" "RATE_LIMIT_PER_MINUTE" "value" (int $service.rateLimitPerMinute | toString))
-}}
{{- with $service.blobStore }}{{ $own = append $own (dict "name" "BLOB_STORE" "value" .) }}{{ end -}}
{{- with $service.bootstrap.accountId }}{{ $own = append $own (dict "name" "BOOTSTRAP_ACCOUNT_ID" "value" .) }}{{ end -}}
{{- with $service.minAgentVersion }}{{ $own = append $own (dict "name" "MIN_AGENT_VERSION" "value" .) }}{{ end -}}
{{- $made := include "vedette.service.name" . -}}
{{- range include "vedette.service.secrets" . | fromYamlArray -}}
{{- if or .value .existingSecret -}}
{{- $ref := dict "name" (default $made .existingSecret) "key" .key -}}
{{- $own = append $own (dict "name" .setting "valueFrom" (dict "secretKeyRef" $ref)) -}}
{{- end -}}
{{- end -}}
{{- $own = concat $own (include "vedette.caEnv" . | fromYamlArray) -}}
{{- include "vedette.env" (list $own $service) -}}
{{- end }}

{{/* Runs that one agent takes at once: (list root own-value). */}}
{{- define "vedette.runsPerAgent" -}}
{{- int (coalesce (index . 1) (index . 0).Values.agent.jobConcurrency 4) -}}
{{- end }}

{{/*
Runs of a location, queued and under way. Every copy of the service shows the same numbers, those of the
database, so that a sum would count them twice.
*/}}
{{- define "vedette.load" -}}
max(vedette_location_queue_size{location="{{ . }}"}) + max(vedette_location_runs_in_flight{location="{{ . }}"})
{{- end }}
