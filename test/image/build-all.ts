import type { TestProject } from 'vitest/node';
import { build, lacksImages, type Target } from './build.ts';

export interface BuiltImage {
  image: string;
  /** Unpacked. */
  megabytes: number;
}

declare module 'vitest' {
  interface ProvidedContext {
    /** Why there are no images here; null when there are. */
    noImages: string | null;
    images: Record<Target, BuiltImage> | null;
  }
}

/** Every target of the Dockerfile, built once for all tests: about five minutes, seconds when nothing has changed. */
export async function setup(project: TestProject): Promise<void> {
  const reason = lacksImages() ?? null;
  project.provide('noImages', reason);
  project.provide('images', reason === null ? await buildAll() : null);
}

async function buildAll(): Promise<Record<Target, BuiltImage>> {
  return {
    uptime: await told('uptime'),
    service: await told('service'),
    agent: await told('agent'),
  };
}

async function told(target: Target): Promise<BuiltImage> {
  const { image, seconds, megabytes } = await build(target);
  console.log(`vedette: built ${image} in ${seconds} s, ${megabytes} MB unpacked`);
  return { image, megabytes };
}
